#!/bin/sh
# An abort of the emulated NCCL waits for all that the device has under way, as the real one does. Run from the
# top of the tree, after the tests are built; BUILD may be set.
BUILD=${BUILD:-build}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
export TRINE_EMU_PATIENCE=1
number=0
failed=0

# expect NAME: what stands before it is so
expect() {
    set -- $? "$1"
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        echo "# status $status"
        sed 's/^/# /' "$out"
        failed=1
    fi
}

aborts() { # aborts HOW: leaves the exit status in $status, all output in $out
    timeout -k 5 120 tools/mpirun.sh -np 2 "$BUILD/tests/emu/nccl_driver" "$1" >"$out" 2>&1
    status=$?
}

died() {
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && grep -q "^emu: ncclCommAbort waits for the device" "$out"
}

echo "1..4"

aborts one
died
expect "the abort of one communicator waits for the work of another"

aborts both
died
expect "and so does the first of two"

aborts together
[ "$status" -eq 0 ]
expect "in one ncclGroup all are told first, and end"

export TRINE_EMU_NCCL_VERSION=22105
aborts together
died
expect "NCCL before 2.22 aborts at once, in a group, too"

exit $failed
