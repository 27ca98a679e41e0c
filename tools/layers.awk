# The rules of the tree, checked line by line (tools/layers.sh runs this over all sources).
#
#   train -> plan -> run -> {model -> tp, dp; zero; pp} -> state -> core -> comm -> device -> base
#   plan, dp -> data -> core;  train -> ckpt -> model;  train, doctor -> profile -> core
#   generate -> {ckpt -> model, tp, pp} -> core
#
# A room may include itself and what stands beside it in the table, nothing else; of comm other rooms include
# src/comm/api. Modules of several rooms do not include each other in a circle, and of one room no more than
# three do. No device includes another. Foreign headers, names that a room must not know, getenv, #if in a
# function body and sizes have a rule each below. The sources are in one format (make format-check): a function
# begins and ends in column 0.

BEGIN {
    allowed["base"] = ""
    allowed["device"] = "base"
    allowed["comm"] = "device base"
    allowed["core"] = "comm device base"
    allowed["data"] = "core base"
    allowed["ckpt"] = "model core comm device base"
    allowed["state"] = "core comm device base"
    allowed["tp"] = "state core comm device base"
    allowed["dp"] = "state data core comm device base"
    allowed["zero"] = "state core comm device base"
    allowed["pp"] = "state core comm device base"
    allowed["model"] = "tp dp state core device base"
    allowed["run"] = "model tp dp zero pp state core comm device base"
    allowed["generate"] = "model tp pp ckpt core comm device base"
    allowed["profile"] = "core comm device base"
    allowed["doctor"] = "profile core comm device base"
    allowed["plan"] = "run model tp dp zero pp state data core comm device base"
    allowed["train"] = "plan profile run model tp dp zero pp state data ckpt core comm device base"
    for (room in allowed) {
        count = split(allowed[room], names, " ")
        for (i = 1; i <= count; i++) may[room, names[i]] = 1
        may[room, room] = 1
    }
    file_limit = 600
    function_limit = 60
    circle_limit = 3
}

function fault(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    faults++
}

# The line without comments and strings; what it says in words is no use of a name. in_comment outlives
# the line.
function code_of(line,    out, at) {
    out = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            if (!at) return out
            line = substr(line, at + 2)
            in_comment = 0
        } else if (match(line, /"([^"\\]|\\.)*"|\/\*|\/\/|'([^'\\]|\\.)+'/)) {
            out = out substr(line, 1, RSTART - 1)
            at = substr(line, RSTART, 2)
            line = substr(line, RSTART + RLENGTH)
            if (at == "//") return out
            if (at == "/*") in_comment = 1
            else out = out " "
        } else {
            return out line
        }
    }
    return out
}

# A module is a file of C and the header of its name, as one: src/comm/api/axes.
function module_of(file) {
    sub(/^src\//, "", file)
    sub(/[.](c|h|cu|cuh)$/, "", file)
    return file
}

function room_of(module) {
    sub(/\/.*/, "", module)
    return module
}

# "cpu" of src/device/cpu/dnnl.c and device/cpu/cpu.h; "" of what is no device's own.
function device_of(file) {
    sub(/^src\//, "", file)
    if (file !~ /^device\/[^\/]+\//) return ""
    sub(/^device\//, "", file)
    sub(/\/.*/, "", file)
    return file
}

# Edges of modules, each with the line that it comes from.
function note_include(target,    from, to) {
    if (room == "" || target !~ /\//) return
    from = module_of(path)
    to = module_of(target)
    if (from == to || (from, to) in edge_at) return
    edge_at[from, to] = FILENAME ":" FNR
    edges++
    edge_from[edges] = from
    edge_to[edges] = to
}

function check_own(target,    other) {
    if (target ~ /\.\./) {
        fault("include \"" target "\" climbs out of its folder: name it from src/")
        return
    }
    note_include(target)
    if (room == "" || target !~ /\//) return
    other = target
    sub(/\/.*/, "", other)
    if (!((room, other) in may))
        fault("room " room " must not include " other " (" target "); it may include: " \
              (allowed[room] == "" ? "nothing" : allowed[room]))
    else if (other == "comm" && room != "comm" && target !~ /^comm\/api\//)
        fault("other rooms include src/comm/api only, not " target)
    if (device_of(path) != "" && device_of(target) != "" && device_of(path) != device_of(target))
        fault("device " device_of(path) " must not include another one (" target ")")
}

function check_foreign(target) {
    # A benchmark measures the libraries themselves, for the limit.
    if (path ~ /^bench\// && target ~ /^(mpi\.h|oneapi\/dnnl\/.*)$/) return
    if (target == "mpi.h" && room != "comm") fault("<mpi.h> belongs to src/comm")
    if (target ~ /^nccl/ && path !~ /^src\/comm\/transport\/nccl\/.*[.]cuh?$/)
        fault("<" target "> belongs to src/comm/transport/nccl/*.cu")
    if (target ~ /^(cuda|cublas|nvml|nvtx|device_launch|curand)/ && !cuda_file)
        fault("<" target "> belongs to src/device/cuda and src/comm/transport/nccl/*.cu")
    if (target ~ /dnnl/ && path !~ /^src\/device\/cpu/) fault("<" target "> belongs to src/device/cpu")
    if (target == "cmocka.h") fault("<cmocka.h> belongs to tests")
}

function check_include(line,    target) {
    target = line
    sub(/^#[ \t]*include[ \t]*[<"]/, "", target)
    sub(/[>"].*/, "", target)
    if (line ~ /"/) check_own(target)
    # A foreign header is foreign in quotation marks too.
    check_foreign(target)
}

function check_names(code) {
    if (code ~ /getenv[ \t]*\(/ && path ~ /^(src|include|examples)\// && path != "src/base/options.c")
        fault("getenv belongs to src/base/options.c")
    if (room == "model" && match(code, /trine_(comm|mesh)[A-Za-z0-9_]*/))
        fault("a model file names " substr(code, RSTART, RLENGTH) \
              ": who talks to whom is the business of tp")
}

# Numbers are written and read with a point in every locale (src/base/c_locale.h). A statement is what ends
# with ; { or } at the end of a line; its strings count here.
function check_numbers(line, code) {
    if (path !~ /^src\// || path == "src/base/c_locale.c" || cuda_file) return
    if (code ~ /(^|[^A-Za-z_0-9])(strto(d|f|ld)|atof|vsnprintf|vfprintf|localeconv|setlocale)[ \t]*\(/)
        fault("this asks the program's locale: src/base/c_locale.h")
    if (code ~ /cJSON_(Print|Parse)[A-Za-z]*[ \t]*\(/ && path != "src/base/json.c")
        fault("cJSON asks the program's locale: json_print and json_parse (src/base/json.h)")
    statement = statement " " line
    if (line !~ /[;{}][ \t]*$/) return
    gsub(/%%/, "", statement)
    if (statement ~ /(^|[^A-Za-z_0-9])(f|sn|s|as|d)?printf[ \t]*\(/ && \
        statement ~ /%[-+ #0]*[0-9*]*([.][0-9*]*)?l?[aefgAEFG]/)
        fault("a number with a point that is the locale's: c_snprintf, c_fprintf (src/base/c_locale.h)")
    statement = ""
}

# Functions: the statement that began in column 0 and ends with { on this line, having had a ( in it.
function check_shape(line, code) {
    if (in_function) {
        if (code ~ /^[ \t]*#[ \t]*if/) fault("#if in a function body: use another file or a table")
        if (line ~ /^}/) {
            in_function = 0
            if (FNR - start + 1 > function_limit)
                fault("function " name " has " FNR - start + 1 " lines, more than " function_limit)
        }
        return
    }
    if (code ~ /^[A-Za-z_]/) {
        start = FNR
        signature = ""
    }
    if (code ~ /^[ \t]*#/) return
    signature = signature code
    if (code ~ /[{][ \t]*$/ && signature ~ /\(/ && signature !~ /=|^(typedef|enum|struct|union)[^(]*[{]/) {
        in_function = 1
        name = signature
        sub(/[ \t]*\(.*/, "", name)
        sub(/.*[ \t*]/, "", name)
    }
    if (code ~ /[;}][ \t]*$/) signature = ""
}

# What is in no circle goes: modules that no other one left includes, and those that include no other one
# left. What stays is in a circle, or between two.
function peel(    n, gone, ins, outs, m) {
    for (n = 1; n <= edges; n++) left[edge_from[n]] = left[edge_to[n]] = 1
    do {
        gone = 0
        split("", ins)
        split("", outs)
        for (n = 1; n <= edges; n++)
            if ((edge_from[n] in left) && (edge_to[n] in left)) {
                outs[edge_from[n]] = 1
                ins[edge_to[n]] = 1
            }
        for (m in left)
            if (!(m in ins) || !(m in outs)) {
                delete left[m]
                gone++
            }
    } while (gone)
}

# reach[from, to], for what is left.
function find_reach(    m, n, grew) {
    for (n = 1; n <= edges; n++)
        if ((edge_from[n] in left) && (edge_to[n] in left)) reach[edge_from[n], edge_to[n]] = 1
    do {
        grew = 0
        for (n = 1; n <= edges; n++)
            for (m in left)
                if ((edge_from[n], edge_to[n]) in reach && (edge_to[n], m) in reach && \
                    !((edge_from[n], m) in reach)) {
                    reach[edge_from[n], m] = 1
                    grew = 1
                }
    } while (grew)
}

# All modules that include each other, once for each such set, at the line of its first edge.
function check_circles(    n, m, first, count, rooms, text, said) {
    peel()
    find_reach()
    for (n = 1; n <= edges; n++) {
        first = edge_from[n]
        if (first in said || !((edge_to[n], first) in reach)) continue
        count = rooms = 0
        text = ""
        for (m in left)
            if ((first, m) in reach && (m, first) in reach) {
                said[m] = 1
                count++
                if (room_of(m) != room_of(first)) rooms = 1
                text = text " " m
            }
        if (!rooms && count <= circle_limit) continue
        printf "%s: %s include each other:%s\n", edge_at[first, edge_to[n]], \
            rooms ? "modules of several rooms" : count " modules of a room, more than " circle_limit ",", text
        faults++
    }
}

# A file name says what is inside, so no two rooms have files of one name.
function check_file_name(    name) {
    name = path
    sub(/.*\//, "", name)
    if (room == "") return
    if (!(name in room_with)) room_with[name] = room
    if (room_with[name] != room) fault("src/" room_with[name] " has a file of this name, too")
}

function end_of_file() {
    if (last_path != "" && last_lines > file_limit) {
        printf "%s:%d: %d lines, more than %d\n", last_path, last_lines, last_lines, file_limit
        faults++
    }
}

FNR == 1 {
    end_of_file()
    path = FILENAME
    sub(/^\.\//, "", path)
    room = ""
    if (path ~ /^src\/[^\/]+\//) {
        room = path
        sub(/^src\//, "", room)
        sub(/\/.*/, "", room)
        if (!(room in allowed)) fault("no room is called " room ": tools/layers.awk has the table")
    }
    check_file_name()
    cuda_file = path ~ /^src\/(device\/cuda\/|comm\/transport\/nccl\/.*[.]cuh?$)/
    in_comment = in_function = 0
    start = 1
    signature = statement = ""
}

{
    last_path = path
    last_lines = FNR
    commented = in_comment
    code = code_of($0)
    if (!commented && $0 ~ /^#[ \t]*include/) check_include($0)
    check_names(code)
    check_numbers($0, code)
    check_shape($0, code)
}

END {
    end_of_file()
    check_circles()
    if (faults) {
        printf "layers: %d fault%s\n", faults, faults == 1 ? "" : "s"
        exit 1
    }
}
