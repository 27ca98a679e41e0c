#!/bin/bash
# The object for GPUs, as nvcc made it (where there is one) and on the processor: it shows one function,
# and wants nothing of libtrine. And what the search for CUDA says.
set -eu
. tests/needs.sh
needs nm readelf

build=${BUILD:-build}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
count=0

check() {
    count=$((count + 1))
    local name=$1
    shift
    if "$@" >"$root/said" 2>&1; then echo "ok $count - $name"; else
        echo "not ok $count - $name"
        sed 's/^/# /' "$root/said"
    fi
}

skip() {
    count=$((count + 1))
    echo "ok $count # SKIP $1"
}

# shows OBJECT PATTERN: nothing else is exported.
shows() {
    local others
    others=$(nm -D --defined-only "$1" | awk '{ print $NF }' | grep -vxE "$2" || true)
    [ -z "$others" ] || { echo "$others"; return 1; }
}

loads() {
    nm -D --defined-only "$1" | grep -q ' T trine_cuda_load$'
}

# Neither a library of ours nor a name that one must bring.
stands_alone() {
    ! readelf -d "$1" | grep 'NEEDED.*libtrine' &&
        ! nm -D --undefined-only "$1" | grep -E ' (trine|status|device|comm)_'
}

object() {
    check "$2: shows one function" shows "$1" "$3"
    check "$2: can be opened" loads "$1"
    check "$2: stands alone" stands_alone "$1"
}

# The emulation's own functions are there for tests.
object "$build/emu/libtrine_cuda.so" emulated 'trine_cuda_load|emu_[a-z_]*'
if [ -e "$build/libtrine_cuda.so" ]; then
    object "$build/libtrine_cuda.so" "by nvcc" trine_cuda_load
else
    skip "by nvcc: there was no CUDA"
fi

# search WISH...: tools/cuda.sh in an empty build folder, without any CUDA.
search() {
    env -u NVCC CUDA_HOME="$root/nowhere" tools/cuda.sh "$root/build" "$@"
}

none_found() {
    [ "$(search)" = "CUDA: no nvcc, built without (CUDA_HOME names the place)" ] &&
        ! grep CUDA_NVCC "$root/build/cuda.mk"
}

not_looked_for() {
    [ -z "$(search 0)" ] && ! grep CUDA_NVCC "$root/build/cuda.mk"
}

insisted_on() {
    ! search 1 2>"$root/error" && grep "CUDA=1, but there is no $root/nowhere/bin/nvcc" "$root/error"
}

# A compiler that cannot link: its words are passed on.
broken() {
    mkdir -p "$root/broken/bin"
    # shellcheck disable=SC2016  # it is the script's own $1
    printf '#!/bin/sh\ncase $1 in --list*) echo compute_90 ;; *) echo cannot find -lcublasLt >&2; exit 1 ;; esac\n' \
        >"$root/broken/bin/nvcc"
    chmod +x "$root/broken/bin/nvcc"
    CUDA_HOME="$root/broken" tools/cuda.sh "$root/build" | grep "cannot make a program" &&
        ! CUDA_HOME="$root/broken" tools/cuda.sh "$root/build" 1 2>"$root/error" &&
        grep -x "cannot find -lcublasLt" "$root/error"
}

check "no CUDA is said in one line" none_found
check "CUDA=0 says and looks for nothing" not_looked_for
check "CUDA=1 without CUDA is an error" insisted_on
check "CUDA=1 passes on what the compiler says" broken
echo "1..$count"
