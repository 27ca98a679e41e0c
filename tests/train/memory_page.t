#!/bin/sh
#
# docs/memory.md shows the numbers that --dry-run and trine-plan print.
. tests/lib.sh
export BUILD
check "docs/memory.md matches the output of --dry-run and trine-plan" tools/memory_page.sh --check
done_testing
