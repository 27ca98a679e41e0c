#!/bin/sh
# An abort of the emulated NCCL waits for all pending work of the device, as the real one does.
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
result $? "the first of two aborts waits, too"

aborts together
[ "$status" -eq 0 ]
result $? "in one ncclGroup all aborts take effect first, and finish"

export TRINE_EMU_NCCL_VERSION=22105
aborts together
died
result $? "NCCL before 2.22 aborts immediately, in a group, too"

done_testing
