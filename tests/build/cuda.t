#!/bin/bash
# The CUDA object, built by nvcc (if there is one) and emulated: it exports one function and needs no symbol of
# libtrine. Also the results of the search for CUDA.
set -eu
. tests/lib.sh
needs nm readelf

# shows OBJECT PATTERN: it exports no other symbols.
shows() {
    local others
    others=$(nm -D --defined-only "$1" | awk '{ print $NF }' | grep -vxE "$2" || true)
    [ -z "$others" ] || { echo "$others"; return 1; }
}

loads() {
    nm -D --defined-only "$1" | grep -q ' T trine_cuda_load$'
}

# It needs neither libtrine nor a symbol of libtrine.
stands_alone() {
    ! readelf -d "$1" | grep 'NEEDED.*libtrine' &&
        ! nm -D --undefined-only "$1" | grep -E ' (trine|status|device|comm)_'
}

# NCCL is opened at run time if it is needed: a machine with one GPU may not have it.
needs_no_nccl() {
    ! readelf -d "$1" | grep 'NEEDED.*nccl' && ! nm -D --undefined-only "$1" | grep ' nccl'
}

object() {
    check "$2: exports one function" shows "$1" "$3"
    check "$2: can be opened" loads "$1"
    check "$2: needs no symbol of libtrine" stands_alone "$1"
    check "$2: is not linked with NCCL" needs_no_nccl "$1"
}

# The emulation exports its own functions for tests and for the emulated NCCL.
object "$BUILD/emu/libtrine_cuda.so" emulated 'trine_cuda_load|(emu_|cuda)[a-zA-Z0-9_]*'
if [ -e "$BUILD/libtrine_cuda.so" ]; then
    object "$BUILD/libtrine_cuda.so" "by nvcc" trine_cuda_load
else
    skip "by nvcc" "built without CUDA"
fi

# search [0|1]: tools/cuda.sh in an empty build folder, without any CUDA.
search() {
    env -u NVCC CUDA_HOME="$dir/nowhere" tools/cuda.sh "$dir/build" "$@"
}

none_found() {
    [ "$(search)" = "CUDA: nvcc not found, building without CUDA; set CUDA_HOME if it is installed elsewhere" ] &&
        ! grep CUDA_NVCC "$dir/build/cuda.mk"
}

not_looked_for() {
    [ -z "$(search 0)" ] && ! grep CUDA_NVCC "$dir/build/cuda.mk"
}

insisted_on() {
    ! search 1 2>"$dir/error" && grep "CUDA=1: $dir/nowhere/bin/nvcc not found" "$dir/error"
}

# A compiler that cannot link: its messages are printed.
broken() {
    mkdir -p "$dir/broken/bin"
    # shellcheck disable=SC2016  # it is the script's own $1
    printf '#!/bin/sh\ncase $1 in --list*) echo compute_90 ;; *) echo cannot find -lcublasLt >&2; exit 1 ;; esac\n' \
        >"$dir/broken/bin/nvcc"
    chmod +x "$dir/broken/bin/nvcc"
    CUDA_HOME="$dir/broken" tools/cuda.sh "$dir/build" | grep "cannot build a program" &&
        ! CUDA_HOME="$dir/broken" tools/cuda.sh "$dir/build" 1 2>"$dir/error" &&
        grep -x "cannot find -lcublasLt" "$dir/error"
}

# has_nccl FOLDER VERSION: FOLDER/include has nccl.h of that version (2 18 3), without a library.
has_nccl() {
    mkdir -p "$1/include"
    {
        echo "#define NCCL_MAJOR $2"
        echo "#define NCCL_MINOR $3"
        echo "#define NCCL_PATCH $4"
        echo "#define NCCL_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))"
        echo "#define NCCL_VERSION_CODE NCCL_VERSION($2, $3, $4)"
        echo "typedef struct { int size; } ncclConfig_t;"
        echo "#define NCCL_CONFIG_INITIALIZER {0}"
    } >"$1/include/nccl.h"
}

# with_nccl SETTING...: the search with a compiler that finds only CUDA's own headers and those in the settings.
with_nccl() {
    mkdir -p "$dir/some/bin" "$dir/some/include"
    echo "#define CUDART_VERSION 13000" >"$dir/some/include/cuda_runtime.h"
    cat >"$dir/some/bin/nvcc" <<'NVCC'
#!/bin/bash
case " $* " in
*--list*) printf 'compute_%s\n' 80 90 100 ;;
*" -c "* | *" -E "*) exec ${CXX:-c++} -x c++ -nostdinc -nostdinc++ -I"${0%/bin/*}/include" "$@" ;;
esac
NVCC
    chmod +x "$dir/some/bin/nvcc"
    env -u NVCC -u NCCL_HOME -u VIRTUAL_ENV -u CUDA_SM CUDA_HOME="$dir/some" "$@" tools/cuda.sh "$dir/build"
}

header_alone() {
    has_nccl "$dir/nccl" 2 18 3
    with_nccl NCCL_HOME="$dir/nccl" | grep ", nccl.h 2.18.3" &&
        grep -x "CUDA_NCCL := yes" "$dir/build/cuda.mk" && grep -x "NCCL_FLAGS := -I$dir/nccl/include" "$dir/build/cuda.mk"
}

old_header() {
    has_nccl "$dir/old" 2 17 1
    with_nccl NCCL_HOME="$dir/old" | grep "no nccl.h 2.18 or newer" && ! grep CUDA_NCCL "$dir/build/cuda.mk"
}

one_architecture() {
    with_nccl && grep -x 'CUDA_ARCH := .*sm_80 .*sm_90 .*=compute_90' "$dir/build/cuda.mk" &&
        with_nccl CUDA_SM=100 && grep -E '^CUDA_ARCH := [^ ]*code=sm_100 [^ ]*code=compute_100$' "$dir/build/cuda.mk" &&
        ! with_nccl CUDA_SM="90 75" 2>"$dir/error" && grep -x "CUDA_SM=90 75: $dir/some/bin/nvcc has 80 90 100" "$dir/error"
}

wheel() {
    local folder=$dir/venv/lib/python3.11/site-packages/nvidia/nccl
    has_nccl "$folder" 2 27 3
    mkdir -p "$folder/lib"
    with_nccl VIRTUAL_ENV="$dir/venv" | grep ", nccl.h 2.27.3" &&
        grep -- "-rpath=$folder/lib" "$dir/build/cuda.mk"
}

check "without CUDA: one line reports it" none_found
check "CUDA_SM: the architectures, which nvcc must have" one_architecture
check "CUDA=0: no search, no output" not_looked_for
check "CUDA=1 without CUDA is an error" insisted_on
check "CUDA=1 prints the compiler's messages" broken
check "nccl.h without the library suffices to build" header_alone
check "an nccl.h that is too old is not used" old_header
check "pip's package in the active environment is found" wheel
done_testing
