#!/bin/sh
# Checks the layering and the sizes of the sources; prints file:line of every fault and exits 1 if there
# is one. Usage: tools/layers.sh [TREE [BUILD]]: calls are seen in the objects of BUILD, and without it only includes.
# tools/layers.awk has the rules for what is in a file, tools/circles.awk those for who uses whom.
set -eu

here=$(dirname "$(realpath "$0")")
objects=
[ -z "${2:-}" ] || objects=$(cd "$2/obj" && pwd)
cd "${1:-$here/..}"
{
    find src include examples tools bench \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort |
        xargs awk -f "$here/modules.awk" -f "$here/layers.awk"
    [ -z "$objects" ] || (cd "$objects" && find . -name '*.o' | sort | xargs nm -A -P -g)
} | awk -v objects="$objects" -f "$here/modules.awk" -f "$here/circles.awk"
