#!/bin/bash
# Finds CUDA by compiling and linking a program with it, and nccl.h by compiling a program with it. Prints the
# result in one line and writes it to BUILD/cuda.mk for the Makefile. Usage: tools/cuda.sh BUILD [0|1]. 0: do not
# look for CUDA; 1: if CUDA is missing, fail with the compiler's messages; neither: use CUDA if it is there.
#
# nvcc is NVCC, else CUDA_HOME/bin/nvcc, else the nvcc of PATH, else /usr/local/cuda/bin/nvcc. nccl.h is looked
# for in NCCL_HOME/include, else in the compiler's include path, else in pip's nvidia-nccl in the active virtual
# environment. The NCCL library itself is opened at run time and may be missing here. Needs no GPU. A result
# for the same locations is kept and not probed again. CUDA_SM="90": for these architectures only (default: "80 90").
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

# Writes cuda.mk; only if its text has changed.
conclude() {
    printf '%s\n' "$@" >"$work/cuda.mk"
    cmp -s "$work/cuda.mk" "$mk" || cp "$work/cuda.mk" "$mk"
}

say() {
    echo "CUDA: $*"
}

# The flags for those of our target architectures that this nvcc supports, with PTX of the newest for later GPUs.
architectures() {
    "$nvcc" --list-gpu-arch | awk -v wanted=" ${CUDA_SM:-80 90} " '
        { sub(/compute_/, "") }
        index(wanted, " " $1 " ") { known[n++] = $1 }
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

# probe PROGRAM ARGUMENTS...: the compiler's messages go to $work/said.
probe() {
    local program=$1
    shift
    "$nvcc" "$work/$program.cu" -o "$work/$program" "$@" >"$work/said" 2>&1
}

# macro HEADER NAME...: the values of macros of a header
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

# The folder of pip's package nvidia-nccl in the active virtual environment; empty if there is none.
wheel() {
    local folder
    for folder in "${VIRTUAL_ENV:-/nowhere}"/lib/python3*/site-packages/nvidia/nccl; do
        if [ -e "$folder/include/nccl.h" ]; then echo "$folder"; fi
    done | head -n 1
}

# Whether nccl.h is found: in NCCL_HOME or the compiler's include path, else in the wheel.
find_nccl() {
    # shellcheck disable=SC2086
    if probe nccl -c $nccl_flags; then return 0; fi
    nccl_home=${nccl_home:-$(wheel)}
    nccl_flags=${nccl_home:+-I$nccl_home/include}
    # shellcheck disable=SC2086
    [ -n "$nccl_home" ] && probe nccl -c $nccl_flags
}

# The rpath of libraries that are outside of the loader's search path.
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
        echo "CUDA=1: $nvcc not found; set NVCC, CUDA_HOME or PATH" >&2
        exit 1
    fi
    say "nvcc not found, building without CUDA; set CUDA_HOME if it is installed elsewhere"
    exit 0
fi

key="# $(command -v "$nvcc") $(stat -Lc %Y "$(command -v "$nvcc")") NCCL_HOME=${NCCL_HOME:-} VIRTUAL_ENV=${VIRTUAL_ENV:-} CUDA_SM=${CUDA_SM:-} $(cksum <"$0")"
if [ "$(head -n 1 "$mk" 2>/dev/null)" = "$key" ] && grep -q '^CUDA_NCCL :=' "$mk"; then
    sed -n 's/^# found: /CUDA: /p' "$mk"
    exit 0
fi

for sm in ${CUDA_SM:-}; do
    "$nvcc" --list-gpu-arch | grep -qx "compute_$sm" && continue
    echo "CUDA_SM=$CUDA_SM: $nvcc has $("$nvcc" --list-gpu-arch | sed 's/compute_//' | xargs)" >&2
    exit 1
done
flags=$(architectures)
# shellcheck disable=SC2086
if ! probe cuda $flags -cudart static -lcublasLt; then
    conclude "# no CUDA"
    if [ "$wish" = 1 ]; then
        echo "CUDA=1: $nvcc cannot build a program with the CUDA runtime and cuBLASLt:" >&2
        cat "$work/said" >&2
        exit 1
    fi
    say "$nvcc cannot build a program with the CUDA runtime and cuBLASLt, building without CUDA; CUDA=1 prints the errors"
    exit 0
fi

version=$(macro cuda_runtime.h CUDART_VERSION)
found="$((version / 1000)).$((version % 1000 / 10)) ($nvcc,${flags// -gencode=arch=+([a-z_0-9]),code=/ })"
lines=("CUDA_NVCC := $nvcc" "CUDA_ARCH :=$flags")
if find_nccl; then
    found="$found, nccl.h $(macro nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH)"
    lines+=("NCCL_FLAGS := $nccl_flags" "CUDA_NCCL := yes")
else
    found="$found, no nccl.h 2.18 or newer; set NCCL_HOME if it is installed elsewhere"
    if [ "$wish" = 1 ]; then cat "$work/said" >&2; fi
fi
conclude "$key" "# found: $found" "${lines[@]}" "CUDA_RPATH :=$(rpath)"
say "$found"
