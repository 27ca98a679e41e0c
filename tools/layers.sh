#!/bin/sh
# Checks the layering and the sizes of the sources; prints file:line of every fault and exits 1 if there
# is one. Usage: tools/layers.sh [TREE]. tools/layers.awk has the rules.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/..}"
find src include examples tools bench \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort |
    xargs awk -f "$here/layers.awk"
