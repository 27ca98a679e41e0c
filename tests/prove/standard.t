#!/bin/bash
# TEST full=proved timeout=1800 ranks=4
# The standard set of trine-verify, which is the test of an installation. The faults of tests/prove/faults are planted
# against this case (tests/prove/faults.t).
. tests/lib.sh

LIMIT=900 # for a machine that does much else
run_ranks 4 "$BUILD/trine-verify" --steps 2 --until-wrong
grep -v '^equal\|: equal' "$dir/out" | head -n 8
[ "$status" -eq 0 ] && [ "$(grep -c ': equal' "$dir/out")" -eq 22 ]
result $? "the standard set is right"
done_testing
