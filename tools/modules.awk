# The order of modules, for tools/layers.awk and tools/circles.awk.
#
#   train -> plan -> run -> {model -> tp; dp; zero; pp; norm} -> state -> core -> comm -> device -> base
#   plan, dp -> data -> core;  train, plan, ckpt -> config -> model;  train -> ckpt -> model;
#   train, doctor -> profile -> core;  train, plan -> trace -> core
#   report -> plan;  plan, doctor -> cost -> {model -> tp}
#   gguf -> {ckpt -> model, tokenizer} -> core
#   generate -> {ckpt -> model, tp, pp} -> core;  corpus -> {tokenizer, data};  train, generate -> tokenizer -> base
#
# A module is a directory under src/. It may include, and call, itself and the modules beside it in the table below,
# nothing else; other modules include only src/comm/api of comm.

BEGIN {
    allowed["base"] = ""
    allowed["device"] = "base"
    allowed["comm"] = "device base"
    allowed["core"] = "comm device base"
    allowed["data"] = "core base"
    allowed["config"] = "model core device base"
    allowed["ckpt"] = "config model core comm device base"
    allowed["state"] = "core comm device base"
    allowed["tp"] = "state core comm device base"
    allowed["dp"] = "state data core comm device base"
    allowed["zero"] = "state core comm device base"
    allowed["pp"] = "state core comm device base"
    allowed["norm"] = "state core comm device base"
    allowed["model"] = "tp state core device base"
    allowed["run"] = "model tp dp zero pp norm state core comm device base"
    allowed["tokenizer"] = "base"
    allowed["corpus"] = "tokenizer data base"
    allowed["gguf"] = "tokenizer model ckpt core device base"
    allowed["generate"] = "tokenizer model tp pp ckpt core comm device base"
    allowed["profile"] = "core comm device base"
    allowed["trace"] = "core comm base"
    allowed["cost"] = "model tp state core comm device base"
    allowed["doctor"] = "cost model profile core comm device base"
    allowed["plan"] = "config cost trace run model tp dp zero pp state data core comm device base"
    allowed["train"] = "config tokenizer cost plan profile trace run model tp dp zero pp norm state data ckpt core comm device base"
    allowed["report"] = "plan config cost pp model state core comm device base"
    for (module in allowed) {
        count = split(allowed[module], names, " ")
        for (i = 1; i <= count; i++) may[module, names[i]] = 1
        may[module, module] = 1
    }
    # A folder of comm may include, and call, those behind it.
    folders = split("mesh api transport watch reduce group", folder_at, " ")
    for (i = 1; i <= folders; i++) place_of[folder_at[i]] = i

    # A table of functions and its rows count as one file: the table names every row, and every row uses what the table's
    # file offers to rows. A row knows no other row, so what is read together is the table and one row. (Where the
    # table is a file of its own, as device/ref/ops_table and comm/transport/stack, there is no circle.)
    rows_of["model/kind"] = "^model/kind_[a-z_]+$" # the layer kinds of TRINE_LAYER_LIST
    rows_of["pp/order"] = "^pp/(interleaved|breadth_first|zero_bubble|zbv|v_half)$" # of TRINE_SCHEDULE_LIST
}

# The source file of FILE: a .c and the .h of the same name count as one, as in comm/mesh/make. Objects of
# src/device/cpu/element have two types in their name.
function source_of(file) {
    sub(/^src\//, "", file)
    sub(/[.](c|h|cu|cuh|([a-z0-9]+_[a-z0-9]+[.])?o)$/, "", file)
    return file
}

function module_of(source) {
    sub(/\/.*/, "", source)
    return source
}

# "transport" for comm/transport/shm/wait; "" for a file of another module.
function folder_of(source) {
    if (source !~ /^comm\/[^\/]+\//) return ""
    sub(/^comm\//, "", source)
    return module_of(source)
}
