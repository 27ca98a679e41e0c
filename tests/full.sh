#!/bin/sh
# Runs parts of the long tests (default: all) one after the other, continuing after a failure, and prints a table of
# their times. Usage: tests/full.sh BUILD [PART...]
#
# A part with a test that was skipped as a whole, in which nothing failed, was not run: the table has the reason. The
# exit status is 1 if a part failed, else 77 if one was not run.
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

# Why tests of the last part were skipped as a whole.
reasons() {
    awk -F '\t' '$2 == "all" { print "                  " $1 ": " $3 }' "$build/t/skips"
}

table='' failed=0 missed=0
for part in "$@"; do
    echo "== $part"
    from=$(date +%s) how=passed
    status=0 why=''
    tests/run.sh "$build" "full=$part" || status=$?
    case $status in
        0 | 77) why=$(reasons) ;;
        *) how=FAILED failed=1 ;;
    esac
    if [ -n "$why" ]; then how="not run:" missed=1; fi
    table="$table$(printf '%-8s %5d s  %s' "$part" $(($(date +%s) - from)) "$how")
${why:+$why
}"
done
printf '\n== parts\n%s' "$table"
[ $failed = 0 ] || exit 1
[ $missed = 0 ] || exit 77
