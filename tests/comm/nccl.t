#!/bin/sh
# An error in NCCL, or a rank that does not enter a call, aborts the job with one message that names
# the GPU, the rank and the group; no rank hangs. On the emulated GPU.
. tests/lib.sh
export BUILD

job() { # job RANKS ARGUMENTS
    n=$1
    shift
    run tools/mpirun.sh -np "$n" "$BUILD/tests/comm/nccl_driver" "$@"
}

fault() { # fault RANKS: of the last rank's communicator
    says 1 "NCCL failed: group dp of $1, group rank $(($1 - 1)), GPU 0000:0$1:00.0:" &&
        says 1 "remote process exited"
}

job 3 nothing device 60
[ "$status" -eq 0 ]
result $? "a job without an error"

job 3 fails device 60
ended && fault 3 && says 1 "[pp0 dp2 tp0]" && says 0 "timed out"
result $? "an asynchronous error while the host waits for the device"

job 3 fails host 60
ended && fault 3 && says 0 "timed out"
result $? "an asynchronous error while the host waits for its peers"

job 3 sleeps device 3
ended && says 1 "trine: timed out" && grep -q "^    rank 2 \[pp0 dp2 tp0\] .*: not communicating" "$dir/err"
result $? "a rank that does not enter the call while the others wait for their devices"

job 3 fails rows 60
ended && fault 3 && says 1 "[pp0 dp2 tp0]" && says 0 "timed out"
result $? "an asynchronous error while the host reads rows from the device"

job 3 sleeps rows 3
ended && says 1 "trine: timed out" && grep -q "^    rank 2 \[pp0 dp2 tp0\] .*: not communicating" "$dir/err"
result $? "a rank that does not enter the call while the others read rows from their devices"

job 2 sleeps host 3
ended && says 1 "trine: timed out" && grep -q "^    rank 1 \[pp0 dp1 tp0\] .*: not communicating" "$dir/err"
result $? "a rank that does not enter the call while the other waits in a transport"

# The device has work of two communicators, neither of which can finish: an abort would wait for the other.
job 4 fails groups 60
ended && says 1 "NCCL failed: group " && says 1 "remote process exited" && says 1 "[pp0 dp1 tp1]" && says 0 "emu:"
result $? "an asynchronous error, with work of two groups on the device, is printed before anything is aborted"

TRINE_TIMEOUT=3
export TRINE_TIMEOUT
job 3 late device 60
ended && says 1 "trine: timed out" && grep -q "in ncclCommInitRankConfig (blocking MPI or NCCL call" "$dir/err"
result $? "a rank that does not take part in creating a group"

done_testing
