#!/bin/sh
# An abort of the emulated NCCL waits for all that the device has under way, as the real one does.
. tests/lib.sh
export TRINE_EMU_PATIENCE=1

aborts() { # aborts HOW
    run tools/mpirun.sh -np 2 "$BUILD/tests/emu/nccl_driver" "$1"
}

died() {
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && grep -q "^emu: ncclCommAbort waits for the device" "$dir/err"
}

aborts one
died
result $? "the abort of one communicator waits for the work of another"

aborts both
died
result $? "and so does the first of two"

aborts together
[ "$status" -eq 0 ]
result $? "in one ncclGroup all are told first, and end"

export TRINE_EMU_NCCL_VERSION=22105
aborts together
died
result $? "NCCL before 2.22 aborts at once, in a group, too"

done_testing
