#!/bin/bash
# Finds CUDA by compiling and linking a program with it, and NCCL's header by compiling one; says in one line
# what it found, and writes it to BUILD/cuda.mk for the Makefile. Usage: tools/cuda.sh BUILD [0|1]. 0: not
# even looked for; 1: an error with the compiler's words if CUDA is not there; otherwise it is there or not.
#
# Looked at: NVCC, else CUDA_HOME/bin/nvcc, else the nvcc of PATH, else /usr/local/cuda's; for nccl.h
# NCCL_HOME/include, else wherever the compiler finds it, else what pip has installed in the virtual
# environment that is active. NCCL itself is opened when a run wants it, and may be missing here.
# Needs no GPU. What was found for the same places is not tried again.
set -eu
shopt -s extglob

build=$1 wish=${2:-}
mk=$build/cuda.mk
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$build"

find_nvcc() {
    if [ -n "${NVCC:-}" ]; then
        echo "$NVCC"
    elif [ -n "${CUDA_HOME:-}" ]; then
        echo "$CUDA_HOME/bin/nvcc"
    else
        command -v nvcc || echo /usr/local/cuda/bin/nvcc
    fi
}

# The Makefile's words; written only when they are others.
conclude() {
    printf '%s\n' "$@" >"$work/cuda.mk"
    cmp -s "$work/cuda.mk" "$mk" || cp "$work/cuda.mk" "$mk"
}

say() {
    echo "CUDA: $*"
}

# The architectures that we want and this nvcc knows, and the code of the newest for what comes after.
architectures() {
    "$nvcc" --list-gpu-arch | awk '
        /^compute_(80|90)$/ { sub(/compute_/, ""); known[n++] = $1 }
        END {
            for (i = 0; i < n; i++) printf " -gencode=arch=compute_%s,code=sm_%s", known[i], known[i]
            if (n) printf " -gencode=arch=compute_%s,code=compute_%s", known[n - 1], known[n - 1]
        }'
}

cat >"$work/cuda.cu" <<'PROGRAM'
#include <cublasLt.h>
#include <cuda_runtime.h>
#if CUDART_VERSION < 12000
#error "CUDA 12 or newer is needed"
#endif
static __global__ void set(int *p) { *p = 1; }
int main(void) {
    int version = 0;
    set<<<1, 1>>>(&version);
    cudaRuntimeGetVersion(&version);
    return (int)cublasLtGetVersion() + version;
}
PROGRAM
cat >"$work/nccl.cu" <<'PROGRAM'
#include <nccl.h>
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error "NCCL 2.18 or newer is needed"
#endif
ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
PROGRAM

# probe PROGRAM WORDS...: what the compiler says is in $work/said.
probe() {
    local program=$1
    shift
    "$nvcc" "$work/$program.cu" -o "$work/$program" "$@" >"$work/said" 2>&1
}

# What a header defines: macro HEADER NAME...
macro() {
    local header=$1 name
    shift
    {
        echo "#include <$header>"
        for name in "$@"; do echo "probed $name"; done
    } >"$work/macro.cu"
    # shellcheck disable=SC2086
    "$nvcc" -E $nccl_flags "$work/macro.cu" 2>/dev/null | sed -n 's/^probed *//p' | paste -sd.
}

# The folder of pip's package nvidia-nccl in the active virtual environment; nothing if there is none.
wheel() {
    local folder
    for folder in "${VIRTUAL_ENV:-/nowhere}"/lib/python3*/site-packages/nvidia/nccl; do
        if [ -e "$folder/include/nccl.h" ]; then echo "$folder"; fi
    done | head -n 1
}

# Whether nccl.h is there: in NCCL_HOME or where the compiler looks, or in the wheel.
find_nccl() {
    # shellcheck disable=SC2086
    if probe nccl -c $nccl_flags; then return 0; fi
    nccl_home=${nccl_home:-$(wheel)}
    nccl_flags=${nccl_home:+-I$nccl_home/include}
    # shellcheck disable=SC2086
    [ -n "$nccl_home" ] && probe nccl -c $nccl_flags
}

# Where the loader finds the libraries that are not on its list.
rpath() {
    local folder words=
    for folder in "$(dirname "$(realpath "$(command -v "$nvcc")")")/../lib64" ${nccl_home:+"$nccl_home/lib"}; do
        if [ -d "$folder" ]; then words="$words -Xlinker=-rpath=$(realpath "$folder")"; fi
    done
    echo "$words"
}

nvcc=$(find_nvcc)
nccl_home=${NCCL_HOME:-}
nccl_flags=${nccl_home:+-I$nccl_home/include}

if [ "$wish" = 0 ]; then
    conclude "# CUDA=0"
    exit 0
fi
if ! command -v "$nvcc" >/dev/null; then
    conclude "# no nvcc"
    if [ "$wish" = 1 ]; then
        echo "CUDA=1, but there is no $nvcc (NVCC, CUDA_HOME or PATH name the compiler)" >&2
        exit 1
    fi
    say "no nvcc, built without (CUDA_HOME names the place)"
    exit 0
fi

key="# $(command -v "$nvcc") $(stat -Lc %Y "$(command -v "$nvcc")") NCCL_HOME=${NCCL_HOME:-} VIRTUAL_ENV=${VIRTUAL_ENV:-} $(cksum <"$0")"
if [ "$(head -n 1 "$mk" 2>/dev/null)" = "$key" ] && grep -q '^CUDA_NCCL :=' "$mk"; then
    sed -n 's/^# found: /CUDA: /p' "$mk"
    exit 0
fi

flags=$(architectures)
# shellcheck disable=SC2086
if ! probe cuda $flags -cudart static -lcublasLt; then
    conclude "# no CUDA"
    if [ "$wish" = 1 ]; then
        echo "CUDA=1, but $nvcc cannot make a program with the CUDA runtime and cuBLASLt:" >&2
        cat "$work/said" >&2
        exit 1
    fi
    say "$nvcc cannot make a program with the runtime and cuBLASLt, built without (CUDA=1 says why)"
    exit 0
fi

version=$(macro cuda_runtime.h CUDART_VERSION)
found="$((version / 1000)).$((version % 1000 / 10)) ($nvcc,${flags// -gencode=arch=+([a-z_0-9]),code=/ })"
lines=("CUDA_NVCC := $nvcc" "CUDA_ARCH :=$flags")
if find_nccl; then
    found="$found, NCCL's header $(macro nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH)"
    lines+=("NCCL_FLAGS := $nccl_flags" "CUDA_NCCL := yes")
else
    found="$found, no nccl.h of 2.18 or newer (NCCL_HOME names the place)"
    if [ "$wish" = 1 ]; then cat "$work/said" >&2; fi
fi
conclude "$key" "# found: $found" "${lines[@]}" "CUDA_RPATH :=$(rpath)"
say "$found"
