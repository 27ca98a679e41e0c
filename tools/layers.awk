# Checks the sources line by line (tools/layers.sh runs this over all of them): what a file includes, names that a
# module must not use, the environment, files that are opened for reading or written, #if in a function body and sizes.
# tools/modules.awk has the table of modules; tools/circles.awk, which reads the output of this, checks who uses whom.
#
# There is one rule each for third-party headers; no device includes another. The sources are in one format (make
# format-check): a function starts and ends in column 0.

BEGIN {
    # The files that may open files for writing, and give files names.
    writes["src/base/whole_file.c"]     # every file that appears complete
    writes["src/base/output.c"]         # logs, line by line, under the file's lock
    writes["src/base/lock.c"]
    writes["src/ckpt/file.c"]           # in folders of random names, and under a lease
    writes["src/ckpt/save.c"]           # files that ckpt/file.c created
    writes["src/ckpt/lease.c"]          # the lease itself
    writes["src/comm/watch/board.c"]    # in /dev/shm, under a lock
    writes["src/doctor/facts.c"]        # mkstemp: whether a folder can be written
    writes["tools/trine_verify.c"]      # in memory, without a name
    writes["bench/alternate_rank.c"]    # /proc/self/clear_refs
    writes["bench/tokenfile.c"]         # mkdtemp
    # These read /proc and /sys, under names that they put together.
    reads_system["src/ckpt/lease_record.c"]
    reads_system["src/comm/watch/launch.c"]
    reads_system["src/doctor/facts.c"]
    reads_system["src/doctor/topology.c"]
    reads_system["src/base/energy.c"]
    reads_system["src/base/progress.c"] # the terminal, without waiting
    # These are for programs that have a communicator of their own.
    takes_mpi["include/trine_mpi.h"]
    takes_mpi["examples/coupled.c"]
    # The library lives in a caller's process: it ends none, changes the effect of no signal and says MPI_COMM_WORLD
    # nowhere but here.
    process["src/comm/group/processes.h"] = "MPI_COMM_WORLD"                # what trine_world_create joins
    process["src/comm/mesh/world.c"] = "MPI_Init_thread MPI_Finalize" # if the caller has not; what that began
    process["src/comm/watch/end.c"] = "MPI_Abort MPI_Finalize _exit"  # trine_abort and long waits, after trine_on_abort
    process["src/comm/watch/hook.c"] = "_exit"                        # the same, of one process
    process["src/train/stop.c"] = "_exit"                             # after trine_stop_catch
    process["src/base/signals.c"] = "sigaction signal raise _exit"    # after trine_stop_catch, _trace_, _progress_
    process["src/base/output.c"] = "sigaction signal"                 # SIGXFSZ, in trine_parse and in programs
    process["src/base/status.c"] = "abort"                            # ASSERT: a bug in Trine
    process["src/device/cuda/host.cu"] = "abort"                      # the same
    process["src/base/processor.c"] = "_exit"                         # before main: the next instruction would be illegal
    process["src/ckpt/lease_record.c"] = "kill"                       # signal 0: whether a process exists
    threads["src/base/thread.c"] = "pthread_create pthread_sigmask sigfillset"
    threads["src/base/signals.c"] = "pthread_sigmask" # of the signals that it listens to
    threads["src/base/output.c"] = "pthread_sigmask"  # SIGXFSZ
    file_limit = 600
    function_limit = 60
    column_limit = 118 # of headers, which no program formats
}

function fault(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
}

# The line without comments and strings, whose text does not count as use of a name. in_comment carries over
# to the next line.
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

# "cpu" for src/device/cpu/dnnl.c and device/cpu/cpu.h; "" for files that belong to no single device.
function device_of(file) {
    sub(/^src\//, "", file)
    if (file !~ /^device\/[^\/]+\//) return ""
    sub(/^device\//, "", file)
    sub(/\/.*/, "", file)
    return file
}

function check_own(target,    other) {
    if (target ~ /\.\./) {
        fault("include \"" target "\": \"..\" is not allowed; give the path from src/")
        return
    }
    if (module == "" || target !~ /\//) return
    printf "\tinclude\t%s\t%s\t%s:%d\n", source_of(path), source_of(target), FILENAME, FNR
    other = target
    sub(/\/.*/, "", other)
    if (!((module, other) in may))
        fault("module " module " must not include " other " (" target "); allowed: " \
              (allowed[module] == "" ? "nothing" : allowed[module]))
    else if (other == "comm" && module != "comm" && target !~ /^comm\/api\//)
        fault("module " module " must not include " target "; of comm only src/comm/api is allowed")
    if (device_of(path) != "" && device_of(target) != "" && device_of(path) != device_of(target))
        fault("device " device_of(path) " must not include another device (" target ")")
}

function check_foreign(target) {
    # Benchmarks call these libraries directly to measure the limit.
    if (path ~ /^bench\// && target ~ /^(mpi\.h|oneapi\/dnnl\/.*)$/) return
    if (target == "mpi.h" && module != "comm" && !(path in takes_mpi)) fault("<mpi.h> belongs to src/comm")
    if (target ~ /^nccl/ && path !~ /^src\/comm\/transport\/nccl\/.*[.]cuh?$/)
        fault("<" target "> belongs to src/comm/transport/nccl/*.cu")
    if (target ~ /^(cuda|cublas|nvml|nvtx|device_launch|curand)/ && !cuda_file)
        fault("<" target "> belongs to src/device/cuda and src/comm/transport/nccl/*.cu")
    if (target ~ /dnnl/ && path !~ /^src\/device\/cpu/) fault("<" target "> belongs to src/device/cpu")
    if (target ~ /^(pcre2|utf8proc)[.]h$/ && module != "tokenizer")
        fault("<" target "> belongs to src/tokenizer")
    if (target ~ /^(zlib|zstd)[.]h$/ && module != "corpus") fault("<" target "> belongs to src/corpus")
    if (target == "cmocka.h") fault("<cmocka.h> belongs to tests")
}

function check_include(line,    target) {
    target = line
    sub(/^#[ \t]*include[ \t]*[<"]/, "", target)
    sub(/[>"].*/, "", target)
    if (line ~ /"/) check_own(target)
    # A third-party header may be written in quotation marks, too.
    check_foreign(target)
}

function check_names(code,    name) {
    if (match(code, /((get|set|unset|put|clear)env[ \t]*\(|(^|[^A-Za-z_0-9])_*environ[^A-Za-z_0-9])/) && \
        path ~ /^(src|include|examples|tools)\// && path != "src/base/environment.c") {
        name = substr(code, RSTART, RLENGTH)
        gsub(/[^A-Za-z_]/, "", name)
        fault(name " belongs to src/base/environment.c")
    }
    # A thread of the library neither reads the environment nor blocks the signals of a crash: base/thread.c sees to it.
    if (match(code, /(pthread_create|pthread_sigmask|sigprocmask|sigfillset|thrd_create)[ \t]*\(/) && path ~ /^(src|include)\//) {
        name = substr(code, RSTART, RLENGTH)
        gsub(/[^A-Za-z_]/, "", name)
        if (!index(" " threads[path] " ", " " name " ")) fault(name " belongs to src/base/thread.c; exceptions: tools/layers.awk")
    }
    if (module == "model" && match(code, /trine_(comm|mesh)[A-Za-z0-9_]*/))
        fault("module model must not use " substr(code, RSTART, RLENGTH) "; communication belongs to src/tp")
}

# Calls through a pointer or of a member (e->exit()) are others.
function check_process(code,    name, rest) {
    if (path !~ /^src\//) return
    rest = code
    while (match(rest, /(^|[^A-Za-z_0-9>.])(MPI_COMM_WORLD|(_?exit|_Exit|quick_exit|abort|signal|sigaction|raise|kill|tgkill|pthread_kill|MPI_Abort|MPI_Init|MPI_Init_thread|MPI_Finalize)[ \t]*\()/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        gsub(/[^A-Za-z_0-9]/, "", name)
        if (index(" " process[path] " ", " " name " ")) continue
        fault(name " is the caller's to say: the library ends no process, changes no signal and knows no other " \
              "ranks than those of its world; exceptions: tools/layers.awk")
    }
}

# Whoever opens a file for writing may write over another program's, and is seen half written: only the files of
# the table `writes` do. A mode of fopen is a string that begins with r; it may be on a later line than the call.
function check_writing(line, code) {
    if (path in writes || path !~ /^(src|tools|bench|examples)\//) return
    if (match(code, /(^|[^A-Za-z_0-9])O_(WRONLY|RDWR|CREAT|TMPFILE|APPEND|TRUNC)/) || \
        match(code, /(^|[^A-Za-z_0-9>.])(creat|mk[od]*s?temps?|tmpfile|f?truncate|(sym)?link(at)?|rename(at2?)?|shm_open|memfd_create|MPI_File_open)[ \t]*\(/) || \
        (path !~ /^src\/ckpt\// && match(code, /(^|[^A-Za-z_0-9])file_(create|put|rename)[ \t]*\(/)))
        fault("files are written through src/base/whole_file.h or output.h, not by " \
              substr(code, RSTART, RLENGTH) "; exceptions: tools/layers.awk")
    if (code ~ /(^|[^A-Za-z_0-9])(f|fd|fre)open[ \t]*\(/) writing = line
    else if (writing != "") writing = writing " " line
    if (writing == "" || line !~ /[;{}][ \t]*$/) return
    if (writing !~ /open[ \t]*\(.*,[ \t]*"r[be]*"[ \t]*\)/)
        fault("fopen for reading has the mode \"r\"; files are written through src/base/whole_file.h or output.h")
    writing = ""
}

# Numbers are printed and parsed with a decimal point in every locale (src/base/c_locale.h). A statement ends
# with ; { or } at the end of a line; strings count here.
function check_numbers(line, code) {
    if (path !~ /^src\// || path == "src/base/c_locale.c" || cuda_file) return
    if (code ~ /(^|[^A-Za-z_0-9])(strto(d|f|ld)|atof|vsnprintf|vfprintf|localeconv|setlocale)[ \t]*\(/)
        fault("this call depends on the program's locale; use src/base/c_locale.h")
    if (code ~ /cJSON_(Print|Parse)[A-Za-z]*[ \t]*\(/ && path != "src/base/json.c")
        fault("cJSON depends on the program's locale; use json_print and json_parse (src/base/json.h)")
    statement = statement " " line
    if (line !~ /[;{}][ \t]*$/) return
    gsub(/%%/, "", statement)
    if (statement ~ /(^|[^A-Za-z_0-9])(f|sn|s|as|d)?printf[ \t]*\(/ && \
        statement ~ /%[-+ #0]*[0-9*]*([.][0-9*]*)?l?[aefgAEFG]/)
        fault("printf prints the locale's decimal point; use c_snprintf or c_fprintf (src/base/c_locale.h)")
    statement = ""
}

# Files that may come from elsewhere are opened by src/base/input.c and inside.c alone, which never wait for a pipe and
# check what they opened. A file is opened for reading unless its flags or mode say otherwise.
function check_opens(line, code) {
    if (path !~ /^(src|tools|examples)\// || path ~ /^src\/base\/(input|inside)[.]c$/ || path in reads_system) return
    opening = opening " " line
    called = called " " code
    if (code !~ /[;{}][ \t]*$/) return
    if ((called ~ /(^|[^A-Za-z_0-9>.])open(at)?(2|64)?[ \t]*\(/ && \
         opening !~ /O_WRONLY|O_RDWR|O_CREAT|O_DIRECTORY|\([ \t]*"\/(proc|sys)\//) || \
        (called ~ /(^|[^A-Za-z_0-9>.])f(re)?open(64)?[ \t]*\(/ && \
         opening ~ /open[ \t]*\(.*,[ \t]*"r[be]*"[ \t]*[,)]/ && opening !~ /\([ \t]*"\/(proc|sys)\//))
        fault("this call may wait for a pipe; read files through src/base/input.h or inside.h")
    opening = called = ""
}

# A function: the statement that starts in column 0, contains ( and ends with { on this line.
function check_shape(line, code) {
    if (in_function) {
        if (code ~ /^[ \t]*#[ \t]*if/) fault("#if in a function body; use a separate file or a table")
        if (line ~ /^}/) {
            in_function = 0
            if (FNR - start + 1 > function_limit)
                fault("function " name " has " FNR - start + 1 " lines (limit: " function_limit ")")
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

# A file name tells what is inside, so no two modules have files of the same name.
function check_file_name(    name) {
    name = path
    sub(/.*\//, "", name)
    if (module == "") return
    if (!(name in module_with)) module_with[name] = module
    if (module_with[name] != module) fault("duplicate file name " name ": src/" module_with[name] " has one, too")
}

function end_of_file() {
    if (last_path != "" && last_lines > file_limit) {
        printf "%s:%d: file has %d lines (limit: %d)\n", last_path, last_lines, last_lines, file_limit
    }
}

FNR == 1 {
    end_of_file()
    path = FILENAME
    sub(/^\.\//, "", path)
    module = ""
    if (path ~ /^src\/[^\/]+\//) {
        module = path
        sub(/^src\//, "", module)
        sub(/\/.*/, "", module)
        if (!(module in allowed)) fault("unknown module " module ": tools/modules.awk has the table")
    }
    check_file_name()
    if (module != "") printf "\tsource\t%s\n", path
    cuda_file = path ~ /^src\/(device\/cuda\/|comm\/transport\/nccl\/.*[.]cuh?$)/
    in_comment = in_function = 0
    start = 1
    signature = statement = writing = opening = called = ""
}

{
    last_path = path
    last_lines = FNR
    commented = in_comment
    code = code_of($0)
    if (path ~ /[.]h$/ && length($0) > column_limit)
        fault("line has " length($0) " columns (limit: " column_limit ")")
    if (!commented && $0 ~ /^#[ \t]*include/) check_include($0)
    check_names(code)
    check_process(code)
    check_writing($0, code)
    check_numbers($0, code)
    check_opens($0, code)
    check_shape($0, code)
}

END {
    end_of_file()
}
