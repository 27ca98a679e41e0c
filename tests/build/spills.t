#!/bin/bash
# No kernel keeps registers in local memory but those of tests/build/spills (architecture, registers, bytes of spilling
# stores and loads, kernel), as ptxas said when nvcc compiled them (the Makefile's FILE.o.ptxas). A line of the list that
# is no longer so is a fault, too: the list shrinks. Its figures are those of one version of ptxas. A new list:
# tests/build/spills.t list
set -eu
list=tests/build/spills

# spilling FILE.ptxas...: the lines of a list
spilling() {
    awk -f tests/build/spills.awk "$@" | c++filt -p | LC_ALL=C sort -u
}

of_objects() {
    find "${BUILD:-build}/cuda" -name '*.o.ptxas' -exec cat {} + >"$1"
    spilling "$1"
}

nvcc=$(sed -n 's/^CUDA_NVCC := //p' "${BUILD:-build}/cuda.mk" 2>/dev/null || true)
version() {
    "$nvcc" --version | sed -n 's/^.*release .*, \(V[0-9.]*\)$/\1/p'
}

if [ "${1:-}" = list ]; then
    trap 'rm -f "$list.all"' EXIT
    printf '# ptxas %s\n' "$(version)"
    of_objects "$list.all"
    exit
fi

. tests/lib.sh

# differ LIST FOUND: prints the lines that only one of them has; whether there are any.
differ() {
    grep -v '^#' "$1" | LC_ALL=C sort | LC_ALL=C comm -3 --output-delimiter='found: ' - "$2" >"$dir/differ"
    cat "$dir/differ"
    [ -s "$dir/differ" ]
}

# said STORES LOADS: ptxas of a kernel, and of one that spills nothing
said() {
    cat <<END
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1fILi64EEvPf' for 'sm_90'
ptxas info    : Function properties for _Z1fILi64EEvPf
    16 bytes stack frame, $1 bytes spill stores, $2 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size
ptxas info    : Compiling entry function '_Z1gPf' for 'sm_90'
ptxas info    : Function properties for _Z1gPf
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 8 bytes cumulative stack size
END
}

echo 'sm_90 168 12 20 f<64>' >"$dir/list"
sees() {
    said "$1" "$2" >"$dir/said" && spilling "$dir/said" >"$dir/found" && differ "$dir/list" "$dir/found"
}
not() {
    ! "$@"
}
check "a kernel as listed is no difference" not sees 12 20
check "more bytes are" sees 12 24
check "a kernel of the list that no longer spills is" sees 0 0
: >"$dir/list"
check "one that is not listed is" sees 12 20

if [ ! -e "$BUILD/libtrine_cuda.so" ] || [ -z "$nvcc" ]; then
    skip "the kernels of nvcc" "no object by nvcc"
elif [ "$(sed -n 's/^# ptxas //p' "$list")" != "$(version)" ]; then
    skip "the kernels of nvcc" "the list is of ptxas $(sed -n 's/^# ptxas //p' "$list"), this is $(version)"
else
    of_objects "$dir/all" >"$dir/found"
    # The architectures that it was built for (CUDA_SM).
    grep -o 'code=sm_[0-9]*' "$BUILD/cuda/flags" | sed 's/code=/^/; s/$/ /' >"$dir/built"
    grep -f "$dir/built" $list >"$dir/list"
    kernels=$(grep -c 'Compiling entry function' "$dir/all")
    check "all of $kernels kernels spill what tests/build/spills says" not differ "$dir/list" "$dir/found"
fi
done_testing
