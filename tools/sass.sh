#!/bin/sh
# Counts the instructions that a warp issues for one tile in kernels that use the tensor cores, from machine code.
# Usage: tools/sass.sh OBJECT [PATTERN]
#
# PATTERN (awk's) selects functions by their mangled names, ARCH the architecture (sm_90). CUOBJDUMP is the path of
# cuobjdump, with nvdisasm in the same folder: CUDA's own, or pip's nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm.
#
# The rule: for each innermost loop with HMMA, take the path from its head to its end with the most HMMA, of
# these the one with the most wide loads from global memory (LDG.128, LDGSTS), of these the shortest. That is a full
# tile while the next one is copied; every instruction on it is one slot. Inner loops on the path count
# once. `clocks` counts an HMMA as 4: the time of the tensor core of a multiprocessor's quarter for 2048
# multiply-adds on an H100. `int` is everything without a column of its own: integers, addresses, branches.
set -eu

here=$(dirname "$(realpath "$0")")
[ -n "${1:-}" ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
tool=${CUOBJDUMP:-cuobjdump} arch=${ARCH:-sm_90}
command -v "$tool" >/dev/null || { echo "tools/sass.sh: $tool not found; set CUOBJDUMP to its path" >&2; exit 1; }
case $tool in */*) PATH=${tool%/*}:$PATH ;; esac
{
    "$tool" -arch "$arch" -res-usage "$1"
    "$tool" -arch "$arch" -sass "$1"
} | awk -v pattern="${2:-.}" -f "$here/sass.awk"
