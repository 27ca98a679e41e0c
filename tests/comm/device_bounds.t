#!/bin/sh
# A device pointer that a group does not accept is reported as a bug, instead of a SIGSEGV somewhere.
. tests/lib.sh

job() { # job ARGUMENTS
    run tools/mpirun.sh -np 2 "$BUILD/tests/comm/device_bounds_driver" "$@"
}

stopped() { # stopped TEXT: by an ASSERT of that text
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && grep -q -F "this is a bug in Trine" "$dir/err" &&
        grep -q -F -- "$1" "$dir/err"
}

job inside
[ "$status" -eq 0 ] && grep -q "it was done" "$dir/out"
result $? "a buffer in the exchanged region"

job rest
stopped "a device buffer of a group of several ranks lies in the exchanged region"
result $? "a buffer in other device memory"

job parts
stopped "a buffer lies in one of the two parts of the exchanged region"
result $? "a buffer in both parts"

job end
stopped "a buffer ends inside the exchanged region"
result $? "a buffer across the end"

job inside hash
stopped "staging_is_host(comm, data)"
result $? "a hash of device memory"

done_testing
