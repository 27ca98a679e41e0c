#!/bin/sh
# Prints the tests to run after a change: those of make check that execute lines of files changed since the last commit
# (git diff HEAD, and files that git does not know), by the record of tests/coverage, the cheapest first, and at most a
# minute of them; a changed test comes first. What is left out, and what the record does not know, is told on standard
# error. Usage: tests/changed.sh BUILD [SECONDS]: `make test CHANGED=1`
#
# A file without lines of its own, such as a header of declarations, stands for the sources that include it, by what the
# compiler has written in BUILD.
set -eu

build=$1 limit=${2:-60}
record=tests/coverage
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

note() {
    echo "tests/changed.sh: $*" >&2
}

# recorded FILE...: the tests that execute lines of these files
recorded() {
    tools/coverage.sh "$build" --files "$@"
}

# affected FILE: its tests; for a test, itself
affected() {
    test=${1#tests/} test=${test%.[ct]}
    if grep -q "^$test " "$work/runs" && [ -e "$1" ]; then
        case $1 in tests/*/*.[ct]) echo "$test" >>"$work/first"; return ;; esac
    fi
    found=$(recorded "$1")
    case $1 in
        *.h | *.cuh)
            for source in $(tools/coverage.sh "$build" --includers "$1"); do
                test=${source#tests/} test=${test%.c}
                if grep -q "^$test " "$work/runs"; then echo "$test"; fi
                echo "$source" >>"$work/sources"
            done >>"$work/tests"
            if [ -e "$work/sources" ]; then
                # shellcheck disable=SC2046  # split into files
                found="$found $(recorded $(cat "$work/sources"))"
                rm "$work/sources"
            fi
            ;;
    esac
    if [ -n "$(echo "$found" | tr -d ' \n')" ]; then
        echo "$found" | tr ' ' '\n' >>"$work/tests"
    else
        note "$1: no test of make check is known to execute it"
    fi
}

[ -e "$record" ] || {
    note "no $record: make coverage writes it"
    exit 1
}
tests/sizes.sh >"$work/runs"
: >"$work/first"
: >"$work/tests"
{ git diff --name-only HEAD; git ls-files -o --exclude-standard; } | sort -u >"$work/files"
while read -r file; do affected "$file"; done <"$work/files"
[ -s "$work/files" ] || note "nothing has changed since the last commit"
# The record may be older than a test, or than its removal.
cut -d' ' -f1 "$work/runs" | sort -u >"$work/names"
missing=$(awk '$1 == "test" { print $2 }' "$record" | sort | comm -13 - "$work/names" | wc -l)
[ "$missing" = 0 ] || note "$missing tests of make check are not in $record, and not considered; make coverage adds them"
sort -u "$work/first" | sed 's/^/0 /' >"$work/chosen"
sort -u "$work/tests" | comm -12 - "$work/names" | grep -v -x -F -f "$work/first" | sed 's/^/1 /' >>"$work/chosen" || true
# 0 (changed) or 1, seconds, test; a test that is not in the record may take ten. Some take longer than they compute:
# tests/costs and BUILD/costs have what they took beside others.
cat tests/costs "$build/costs" 2>/dev/null | sed 's/^/took /' >"$work/costs" || true
awk '$1 == "test" { seconds[$2] = $3; next }
    $1 == "took" { took[$2] = $3; next }
    $1 ~ /^[01]$/ {
        name = $2
        sub("/", "-", name)
        cost = ($2 in seconds) ? seconds[$2] : 10
        if (took[name] > cost) cost = took[name]
        print $1, cost, $2
    }' "$record" "$work/costs" "$work/chosen" |
    sort -k1,1n -k2,2n -k3,3 | awk -v limit="$limit" -v cores="$(nproc)" '
        $1 == 0 || sum + $2 <= limit * cores { sum += $2; print $3; n++; next }
        { left = left sprintf("%s%s %.0f s", left ? ", " : "", $3, $2 / cores) }
        END {
            printf "tests/changed.sh: %d tests, %.0f s of %d cores by the record\n", n, sum / cores, cores >"/dev/stderr"
            if (left) print "tests/changed.sh: left out: " left >"/dev/stderr"
        }'
