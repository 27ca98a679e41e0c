#!/bin/bash
# TEST full=proved timeout=1800 ranks=4
# The standard set of trine-verify, which is the test of an installation, a case for each layout. The faults of
# tests/prove/faults are planted against one of them (tests/prove/faults.t).
. tests/lib.sh

only=0
case ${TRINE_CASE:-} in "layout "*) only=${TRINE_CASE#layout } ;; esac
LIMIT=1200 # for a machine that does much else
run_ranks 4 "$BUILD/trine-verify" --steps 2 --only "$only"
grep -v '^equal\|: equal' "$dir/out" | sed "$([ "$only" -eq 0 ] || echo "s/^--[^:]*:/layout $only:/")" | head -n 8
at=0
while read -r line; do
    at=$((at + 1))
    case $line in *": equal"*) true ;; *) false ;; esac
    result $? "layout $((only > 0 ? only : at))"
done < <(grep '^--' "$dir/out")
[ "$status" -eq 0 ] && [ $at -eq $((only > 0 ? 1 : 22)) ]
result $? "all are right"
done_testing
