#!/bin/sh
# Runs parts of the long tests (default: all) one after the other, continuing after a failure, and prints a table of
# their times. Usage: tests/full.sh BUILD [PART...]
set -eu

build=$1
shift
parts=$(tests/plan.sh "$build" parts)
for part in "$@"; do
    echo "$parts" | grep -qx -- "$part" || {
        echo "tests/full.sh: unknown part \"$part\"; valid: $(echo "$parts" | tr '\n' ' ')" >&2
        exit 1
    }
done
# shellcheck disable=SC2086  # split into arguments
[ $# -gt 0 ] || set -- $parts

table='' failed=0
for part in "$@"; do
    echo "== $part"
    from=$(date +%s) how=passed
    tests/run.sh "$build" "full=$part" || how=FAILED failed=1
    table="$table$(printf '%-8s %5d s  %s' "$part" $(($(date +%s) - from)) "$how")
"
done
printf '\n== parts\n%s' "$table"
exit $failed
