#!/bin/sh
# A world after MPI_Finalize is an error in words; worlds before it may follow each other.
. tests/lib.sh

for who in trine caller; do
    run "$BUILD/tests/comm/second_world_driver" "$who"
    [ "$status" = 1 ] && grep -q "a world cannot be created after MPI_Finalize" "$dir/err"
    result $? "$who starts MPI: the second world after MPI_Finalize is refused"
done
run tools/mpirun.sh -np 2 "$BUILD/tests/comm/second_world_driver" trine
[ "$status" != 0 ] && grep -q "a world cannot be created after MPI_Finalize" "$dir/out" "$dir/err"
result $? "two ranks: refused"
done_testing
