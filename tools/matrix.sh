#!/bin/sh
# What tests/mutants/matrix says (tools/mutants.sh with MATRIX=1 writes it). Usage: tools/matrix.sh [check|unrun|without
# TEST...|forget TEST...]
# Without an argument: what each test of make check catches alone, which tests catch nothing, and a summary.
# check: prints what is wrong, and fails if anything is: each mutant of tests/mutants/list must have a line in the
# matrix, and be caught by a test of make check. A line "NAME unrun" says that a mutant has not been run yet; one whose
# time was over before any test had failed counts as such.
# unrun: adds such a line for each mutant that has none.
# without TEST...: what would be lost if these tests left make check, or a case of them did that catches all they catch:
# the mutants that would keep fewer than two tests, and the files of tests/coverage that no other test executes. Fails if
# anything would.
# forget TEST...: these tests have changed; the mutants that they have caught are run against them again (MATRIX=left).
#
# A line is NAME SUM END PASSED TEST:RANKS...: a sum of the fault's text; why its run ended (enough tests failed, all have
# run, or the time was over, time300 after 300 seconds); how many runs passed; and those that failed, the first of each test.
set -eu
cd "$(dirname "$(realpath "$0")")/.."

what=${1:-report}
list=tests/mutants/list
matrix=tests/mutants/matrix
[ -e $matrix ] || {
    echo "$matrix: missing; make mutants MATRIX=1 writes it"
    exit 1
}

if [ "$what" = unrun ]; then
    sed -n 's/^mutant //p' $list | while read -r name; do
        grep -q "^$name " $matrix || echo "$name unrun" >>$matrix
    done
    exit
fi
[ $# -eq 0 ] || shift
if [ "$what" = forget ]; then
    awk -v tests="$*" '
        BEGIN { n = split(tests, list, " "); for (i = 1; i <= n; i++) gone[list[i]] }
        /^#/ || $2 == "unrun" { print; next }
        {
            line = ""
            for (i = 5; i <= NF; i++) {
                test = $i
                sub(/:.*/, "", test)
                if (test in gone) $3 = "enough"; else line = line " " $i
            }
            print line ? $1 " " $2 " " $3 " " $4 line : $1 " unrun"
        }' $matrix >$matrix.new
    mv $matrix.new $matrix
    exit
fi
if [ "$what" = without ]; then
    awk -v tests="$*" '
        BEGIN { n = split(tests, list, " "); for (i = 1; i <= n; i++) { gone[list[i]]; unknown[list[i]] } }
        /^#/ || $2 == "unrun" { next }
        FILENAME ~ /matrix$/ {
            kept = lost = ""
            count = 0
            for (i = 5; i <= NF; i++) {
                test = $i
                sub(/:.*/, "", test)
                if (test in gone) lost = lost " " test; else { kept = kept " " test; count++ }
            }
            if (lost && count < 2) { print $1 ": caught by" lost ";" (kept ? kept : " nothing") " would be left"; wrong = 1 }
            next
        }
        $1 == "test" { at = tests_known++; digit[at] = int(at / 4) + 1; bit[at] = 2 ^ (3 - at % 4); name[at] = $2; delete unknown[$2]; next }
        {
            of = others = ""
            for (at = 0; at < tests_known; at++) {
                value = index("0123456789abcdef", substr($2, digit[at], 1)) - 1
                if (int(value / bit[at]) % 2 == 0) continue
                if (name[at] in gone) of = of " " name[at]; else others = "some"
            }
            if (of && !others) { print $1 ": executed by" of " alone"; wrong = 1 }
        }
        END {
            for (test in unknown) { print test ": not in tests/coverage"; wrong = 1 }
            exit wrong
        }' $matrix tests/coverage
    exit
fi
tests/sizes.sh | awk -v what="$what" -v matrix=$matrix -v list=$list '
    function bad(text) { print text; wrong = 1 }
    # The tests of make check that a line names, without ranks; the number of others in `gone`.
    function read_line(    i, test) {
        lines[$1] = $0
        unrun[$1] = $2 == "unrun" || ($3 ~ /^time/ && NF == 4)
        for (i = 5; i <= NF; i++) {
            test = $i
            sub(/:.*/, "", test)
            if (!(test in checked)) { gone[$1] = gone[$1] " " test; continue }
            catchers[$1] = catchers[$1] " " test
            number[$1]++
            catches[test]++
        }
        if (number[$1] == 1 && $3 == "all") alone[test_of($1)] = alone[test_of($1)] " " $1
        if (number[$1] == 1 && $3 ~ /^time/) perhaps[test_of($1)] = perhaps[test_of($1)] " " $1
    }
    function test_of(name) { return substr(catchers[name], 2) }
    FILENAME == "-" { checked[$1]; if (!($1 in at)) { order[++tests] = $1; at[$1] = tests } next }
    FILENAME == list { if ($1 == "mutant") mutants[++count] = $2; if ($1 == "test") named[mutants[count]] = $2; next }
    /^#/ || NF == 0 { next }
    { read_line() }
    function check(    i, name) {
        for (i = 1; i <= count; i++) {
            name = mutants[i]
            if (!(named[name] in checked)) bad(name ": " named[name] " is not in make check")
            if (!(name in lines)) bad(name ": not in " matrix "; make mutants MATRIX=1 M=" name ", or a line \"" name " unrun\"")
            else if (!unrun[name] && !number[name])
                bad(name ": no test of make check catches it" (gone[name] ? "; gone:" gone[name] : ""))
        }
        for (i = 1; i <= count; i++) waiting += unrun[mutants[i]]
        if (waiting) print waiting " mutants have not been run yet"
    }
    function report(    i, caught) {
        print "caught by this test alone:"
        for (i = 1; i <= tests; i++) if (alone[order[i]]) print "    " order[i] ":" alone[order[i]]
        print "caught by this test alone as far as the time went:"
        for (i = 1; i <= tests; i++) if (perhaps[order[i]]) print "    " order[i] ":" perhaps[order[i]]
        print "tests that have caught nothing (when enough had failed, others were not run):"
        for (i = 1; i <= tests; i++) if (!catches[order[i]]) print "    " order[i]
        print "caught by no test of make check:"
        for (i = 1; i <= count; i++) {
            if (number[mutants[i]]) caught++
            if (number[mutants[i]] > 1) twice++
            else if (!unrun[mutants[i]] && mutants[i] in lines) print "    " mutants[i]
        }
        print caught + 0 " of " count " mutants caught, " twice + 0 " by more than one test"
    }
    END { if (what == "check") check(); else report(); exit wrong }' - $list $matrix
