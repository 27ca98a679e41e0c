#!/bin/sh
# examples/coupled.c: half of the ranks train on what the other half simulates.
. tests/lib.sh

lines=$(wc -l <examples/coupled.c)
[ "$lines" -lt 100 ]
result $? "under 100 lines ($lines)"

run tools/mpirun.sh -np 4 "$BUILD/coupled"
[ "$status" = 0 ] && prints 4 "| loss " && sed -n 's/.*loss //p' "$dir/out" |
    awk 'NR == 1 { first = $1 } END { exit !($1 < 0.8 * first && $1 > 0) }'
result $? "two ranks learn what two others simulate"

run tools/mpirun.sh -np 3 "$BUILD/coupled"
[ "$status" = 1 ] && grep -q "coupled: start an even number of ranks" "$dir/out" "$dir/err"
result $? "an odd number of ranks is refused"
done_testing
