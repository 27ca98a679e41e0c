#!/bin/sh
# Counts what a warp issues for one tile in kernels that use the tensor cores, from their machine code.
# Usage: tools/sass.sh OBJECT [PATTERN]
#
# PATTERN (awk's) chooses functions by their mangled names, ARCH the machine (sm_90). CUOBJDUMP says where
# cuobjdump is, beside nvdisasm: CUDA's own, or pip's nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm.
#
# The rule: of each innermost loop that has HMMA, the path from its head to its end with most HMMA, of
# these with most wide loads from global memory (LDG.128, LDGSTS), of these the shortest. That is a whole
# tile while the next one is copied; every instruction on it is one slot. Inner loops on the path count
# once. `clocks` has an HMMA as 4: what the tensor core of a multiprocessor's quarter takes for 2048
# multiply-adds on an H100. `int` is what no other column has: integers, addresses, branches.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ -n "${1:-}" ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
tool=${CUOBJDUMP:-cuobjdump} arch=${ARCH:-sm_90}
command -v "$tool" >/dev/null || { echo "sass: there is no $tool: CUOBJDUMP says where it is" >&2; exit 1; }
case $tool in */*) PATH=${tool%/*}:$PATH ;; esac
{
    "$tool" -arch "$arch" -res-usage "$1"
    "$tool" -arch "$arch" -sass "$1"
} | awk -v pattern="${2:-.}" -f "$here/sass.awk"
