#!/bin/sh
#
# docs/memory.md shows the numbers that --dry-run prints.
. tests/lib.sh
export BUILD
check "docs/memory.md matches the output of --dry-run" tools/memory_page.sh --check
done_testing
