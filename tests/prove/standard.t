#!/bin/bash
# TEST full=proved timeout=1800 ranks=4
# The standard set of trine-verify, which is the test of an installation. With AGAINST= another test's faults are planted:
# make mutants AGAINST="prove/standard - the standard set is right" M="..." shows which of them it finds, and as what.
. tests/lib.sh

run_ranks 4 "$BUILD/trine-verify" --steps 2
grep -v '^equal\|: equal' "$dir/out" | head -n 8
[ "$status" -eq 0 ] && [ "$(grep -c ': equal' "$dir/out")" -eq 12 ]
result $? "the standard set is right"
done_testing
