#!/bin/sh
#
# The numbers on docs/memory.md are those that --dry-run prints.
. tests/lib.sh
export BUILD
check "the page has what the program prints" tools/memory_page.sh --check
done_testing
