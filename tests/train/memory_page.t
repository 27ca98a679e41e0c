#!/bin/sh
#
# The numbers on docs/memory.md are those that --dry-run prints.
set -u

echo 1..1
if difference=$(BUILD=${BUILD:-build} tools/memory_page.sh --check 2>&1); then
    echo "ok 1 - the page has what the program prints"
else
    echo "not ok 1 - the page has what the program prints (tools/memory_page.sh --write)"
    printf '%s\n' "$difference" | sed 's/^/# /'
    exit 1
fi
