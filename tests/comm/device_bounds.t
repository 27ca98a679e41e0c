#!/bin/sh
# A device pointer that a group may not be given is a bug that is named, not a SIGSEGV somewhere.
. tests/lib.sh

job() { # job ARGUMENTS
    run tools/mpirun.sh -np 2 "$BUILD/tests/comm/far_bounds_driver" "$@"
}

stopped() { # stopped TEXT: by an ASSERT of that text
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && grep -q -F "this is a bug in Trine" "$dir/err" &&
        grep -q -F -- "$1" "$dir/err"
}

job inside
[ "$status" -eq 0 ] && grep -q "it was done" "$dir/out"
result $? "a buffer in the exchanged piece"

job rest
stopped "a device buffer of a group of several lies in the exchanged piece"
result $? "a buffer in other device memory"

job parts
stopped "a buffer lies in one of the two parts of the exchanged piece"
result $? "a buffer in both parts"

job end
stopped "a buffer ends inside the exchanged piece"
result $? "a buffer over the end"

job inside hash
stopped "staging_is_host(comm, data)"
result $? "a hash of device memory"

done_testing
