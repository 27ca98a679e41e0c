#!/bin/sh
# Worlds in a program that initialises MPI: what it must have done before, what stays its own, threads, and how a job
# ends (the worlds themselves: tests/train/from_mpi.c).
. tests/lib.sh

job() { # job RANKS MODE
    if [ "$1" = 1 ]; then run "$BUILD/tests/comm/callers_driver" "$2"; else
        run tools/mpirun.sh -np "$1" "$BUILD/tests/comm/callers_driver" "$2"
    fi
}

for when in before after; do
    job 1 $when
    [ "$status" = 1 ] && says 1 "MPI is " && says 1 "call it between MPI_Init_thread and MPI_Finalize"
    result $? "a world $when MPI is refused"
done
says 1 "MPI is finalised"
result $? "which says why"

job 2 single
[ "$status" != 0 ] && grep -q "MPI was initialised with MPI_THREAD_SINGLE, and Trine, which has threads, needs MPI_THREAD_FUNNELED" "$dir/err"
result $? "MPI_Init is not enough: both levels are named"

for level in funneled serialized multiple; do
    job 2 $level
    [ "$status" = 0 ] && prints 2 "MPI is the caller's"
    result $? "MPI_THREAD_$level: worlds one after the other, and MPI stays the caller's"
done

job 2 thread-funneled
[ "$status" != 0 ] && grep -q "MPI was initialised with MPI_THREAD_FUNNELED by another thread, the only one that may create a world; for any thread MPI needs MPI_THREAD_SERIALIZED" "$dir/err"
result $? "a world of another thread than MPI's is refused"

job 2 thread-serialized
[ "$status" = 0 ] && prints 2 "sum 2"
result $? "with MPI_THREAD_SERIALIZED one thread calls after the other"

# two_threads WORDS: rank 0's second thread was refused, with the numbers of both, and the first one's call ended well
two_threads() {
    second=$(sed -n 's/^second thread //p' "$dir/out")
    [ "$status" = 0 ] && prints 2 "sum 2" && says 1 "trine_mesh_create: called in thread $second$1"
}
LIMIT=100 job 2 second-serialized
two_threads " while thread $(sed -n 's/^first thread //p' "$dir/out") is in trine_"
result $? "audit: a call while another thread is in one"

job 2 second-funneled
two_threads ", but this world belongs to thread $(sed -n 's/^first thread //p' "$dir/out"), the only one that may call MPI"
result $? "audit: a call of a thread that may not call MPI"

for mode in hang blocked; do
    job 4 $mode
    ended && says 0 "has done its work" && says 1 "trine: timed out: rank 0 " && accused 1 "not communicating" && [ "$(grep -c "^    rank [0-9].*: " "$dir/err")" = 2 ]
    result $? "$mode: of two halves one waits while the other works, and is reported alone"
done

job 4 hook
[ "$status" = 7 ] && says 1 "trine: timed out: rank 0 " && grep -q "the hook was called" "$dir/err"
result $? "the program decides how the job ends"

job 2 fault
[ "$status" = 1 ] && says 1 "the disk is full" && grep -q "the hook was called" "$dir/err"
result $? "a hook that returns: the job is aborted"
done_testing
