# From what ptxas -v says of kernels (FILE.o.ptxas) those that keep registers in local memory: architecture, registers,
# bytes of spilling stores and of loads, kernel.
/^ptxas info .*Compiling entry function/ {
    split($0, quoted, "'")
    kernel = quoted[2]
    arch = quoted[4]
}

/bytes stack frame,.*bytes spill stores,.*bytes spill loads/ {
    stores = $5
    loads = $9
}

/^ptxas info .*: Used [0-9]+ registers/ && stores + loads > 0 {
    match($0, /Used [0-9]+/)
    print arch, substr($0, RSTART + 5, RLENGTH - 5), stores, loads, kernel
}
