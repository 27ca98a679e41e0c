# Checks who uses whom. tools/layers.sh passes what tools/layers.awk prints, faults and includes, and behind it the
# symbols of the objects (nm -A -P), in which calls are seen that no include shows. A source file (a .c and its .h count
# as one) uses those that it includes and those that define a symbol of its objects.
#
# - A module uses only modules that it may include, and a folder of comm only those behind it (tools/modules.awk). A
#   header without a .c of its name, such as comm/api/comm.h, is an interface: all of comm may include it, and the
#   objects tell who defines what it declares.
# - An include circle has at most three source files; one of includes and calls at most `circle_limit`, of one module
#   and, in comm, of one folder.

BEGIN {
    include_limit = 3
    circle_limit = 9
}

function fault(text) {
    print text
    faults++
}

# ---- Reading ----

# What circles see of a source file: itself, or the table of functions that it is a row of.
function node_of(source,    table) {
    if (source in nodes) return nodes[source]
    nodes[source] = source
    for (table in rows_of)
        if (source ~ rows_of[table]) nodes[source] = table
    return nodes[source]
}

# An edge: `from` includes `to` or uses a symbol of it, for the first time `where`.
function add_edge(from, to, kind, how, where) {
    from = node_of(from)
    to = node_of(to)
    if (from == to || (from, to, kind) in known) return
    known[from, to, kind]
    edges++
    edge_from[edges] = from
    edge_to[edges] = to
    edge_kind[edges] = kind
    edge_text[edges] = from " " how
    edge_at[edges] = where
}

# Whether folder `from` of comm stands above `to`.
function is_below(from, to) {
    return from == to || from == "" || to == "" || \
           ((from in place_of) && (to in place_of) && place_of[from] < place_of[to])
}

function order_of_folders(    text, i) {
    for (i = 1; i <= folders; i++) text = text (i > 1 ? " -> " : "") folder_at[i]
    return text
}

$1 == "source" && /^\t/ {
    sources[source_of($2)]
    if ($2 ~ /[.](c|cu)$/) has_code[source_of($2)] = $2
    next
}

$1 == "include" && /^\t/ {
    includes++
    include_from[includes] = $2
    include_to[includes] = $3
    include_at[includes] = $4
    next
}

/^[.]\/.*[.]o: / {
    if ($1 != object) {
        name = object = $1
        sub(/^[.]\//, "", name)
        sub(/:$/, "", name)
        name = source_of(name)
        compiled[name]
    }
    if (!(name in has_code)) next # of a source that is gone
    if ($3 == "U") {
        calls++
        call_from[calls] = name
        call_to[calls] = $2
    } else if ($3 ~ /^[A-Z]$/) {
        defines[$2] = name
    }
    next
}

{ fault($0) }

function note_include(from, to, where) {
    add_edge(from, to, 1, "includes " to " (" where ")", where)
    if (to in has_code && !is_below(folder_of(from), folder_of(to)))
        fault(where ": folder " folder_of(from) " of comm must not include " to "; the order is " order_of_folders())
}

function note_call(from, symbol,    to, where) {
    if (!(symbol in defines)) return
    to = defines[symbol]
    if ((from, to) in fine) return
    where = has_code[from]
    add_edge(from, to, 2, "uses " symbol " of " to, where)
    if (!((module_of(from), module_of(to)) in may))
        fault(where ": module " module_of(from) " must not use " symbol " of " to "; allowed: " \
              (allowed[module_of(from)] == "" ? "nothing" : allowed[module_of(from)]))
    else if (!is_below(folder_of(from), folder_of(to)))
        fault(where ": folder " folder_of(from) " of comm must not use " symbol " of " to "; the order is " \
              order_of_folders())
    else
        fine[from, to]
}

# ---- Circles ----

# Removes source files that are in no circle: those that no remaining one uses, and those that use no remaining one.
# What is left is in a circle, or between two. Edges count up to `kinds`.
function peel(kinds,    n, gone, ins, outs, m) {
    split("", left)
    for (n = 1; n <= edges; n++)
        if (edge_kind[n] <= kinds) left[edge_from[n]] = left[edge_to[n]] = 1
    do {
        gone = 0
        split("", ins)
        split("", outs)
        for (n = 1; n <= edges; n++)
            if (edge_kind[n] <= kinds && (edge_from[n] in left) && (edge_to[n] in left)) {
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

# reach[from, to] for the source files that are left.
function find_reach(kinds,    m, n, i, count, next_of, names, queue, last) {
    split("", reach)
    for (n = 1; n <= edges; n++)
        if (edge_kind[n] <= kinds && (edge_from[n] in left) && (edge_to[n] in left))
            next_of[edge_from[n]] = next_of[edge_from[n]] " " edge_to[n]
    for (m in left) {
        queue[last = 1] = m
        for (n = 1; n <= last; n++) {
            count = split(next_of[queue[n]], names, " ")
            for (i = 1; i <= count; i++)
                if (!((m, names[i]) in reach)) {
                    reach[m, names[i]] = 1
                    queue[++last] = names[i]
                }
        }
    }
}

# One way from the end of edge `closing` back to its start, as a line for each step.
function way_back(closing, kinds,    came, n, at, text, grew) {
    came[edge_to[closing]] = closing
    do {
        grew = 0
        for (n = 1; n <= edges && !(edge_from[closing] in came); n++)
            if (edge_kind[n] <= kinds && (edge_from[n] in came) && !(edge_to[n] in came)) {
                came[edge_to[n]] = n
                grew = 1
            }
    } while (grew && !(edge_from[closing] in came))
    for (at = edge_from[closing]; at != edge_to[closing]; at = edge_from[came[at]])
        text = "\n    " edge_text[came[at]] text
    return "\n    " edge_text[closing] text
}

# Each set of source files that use each other, once; `largest` is the number in the largest.
function find_circles(kinds,    n, i, m, first, count, names, reported, over) {
    peel(kinds)
    find_reach(kinds)
    for (n = 1; n <= edges; n++) {
        first = edge_from[n]
        if (edge_kind[n] > kinds || first in reported || !((edge_to[n], first) in reach)) continue
        count = 0
        names = over = ""
        for (i = n; i <= edges; i++) {
            m = edge_from[i]
            if (m in reported || !((first, m) in reach && (m, first) in reach)) continue
            reported[m] = 1
            count++
            names = names " " m
            if (module_of(m) != module_of(first)) over = "modules"
            else if (over == "" && folder_of(m) != folder_of(first)) over = "folders of comm"
        }
        report(kinds, count, names, over, n)
    }
}

function report(kinds, count, names, over, n,    closing) {
    if (kinds == 1 && count > include_limit && over == "")
        fault(edge_at[n] ": include cycle of " count " source files (limit: " include_limit "):" names \
              way_back(n, kinds))
    if (kinds == 1) return
    if (count > largest) largest = count
    if (count == largest) largest_names = names
    closing = n
    while (over != "" && !crosses(closing, over, names)) closing++
    if (over != "") fault(edge_at[closing] ": circle over several " over ":" names way_back(closing, kinds))
    else if (count > circle_limit)
        fault(edge_at[n] ": circle of " count " source files (limit: " circle_limit "):" names way_back(n, kinds))
}

# Whether edge n joins two modules, or folders, inside the circle of these names.
function crosses(n, over, names,    from, to) {
    from = edge_from[n]
    to = edge_to[n]
    if (index(names " ", " " from " ") == 0 || !((to, from) in reach)) return 0
    return over == "modules" ? module_of(from) != module_of(to) : folder_of(from) != folder_of(to)
}

END {
    if (objects && !calls) fault("nm finds no symbols in the objects of " objects)
    for (n = 1; n <= includes; n++) note_include(include_from[n], include_to[n], include_at[n])
    for (n = 1; n <= calls; n++) note_call(call_from[n], call_to[n])
    for (name in has_code)
        if (objects && has_code[name] ~ /[.]c$/ && !(name in compiled))
            fault(has_code[name] ": no object in " objects "; make layers compiles it")
    find_circles(1)
    find_circles(2)
    printf "largest circle%s: %s\n", objects ? "" : " of includes", largest ? largest " files:" largest_names : "none"
    if (faults) {
        printf "layers: %d fault%s\n", faults, faults == 1 ? "" : "s"
        exit 1
    }
}
