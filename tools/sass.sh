#!/bin/sh
# Counts what a warp issues for one tile in kernels that use the tensor cores, from their machine code.
# Usage: tools/sass.sh OBJECT [PATTERN]   with cuobjdump in PATH (CUDA's own, or pip's
# nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm); PATTERN (awk's) chooses functions by their mangled names.
#
# The rule: of each innermost loop that has HMMA, the path from its head to its end with most HMMA, of
# these with most wide loads from global memory (LDG.128, LDGSTS), of these the shortest. That is a whole
# tile, not masked, while the next one is copied; every instruction on it is one slot. Inner loops on the
# path count once. `clocks` has an HMMA as 4: what a tensor core of a multiprocessor's quarter takes for
# 2048 multiply-adds. `int` is what no other column has: integers, addresses, branches.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ -n "${1:-}" ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }
command -v cuobjdump >/dev/null || { echo "sass: there is no cuobjdump in PATH" >&2; exit 1; }
arch=${ARCH:-sm_90}
{
    cuobjdump -arch "$arch" -res-usage "$1"
    cuobjdump -arch "$arch" -sass "$1"
} | awk -v pattern="${2:-.}" -f "$here/sass.awk"
