#!/bin/sh
# A device pointer that a group may not be given is a bug that is named, not a SIGSEGV somewhere. Run
# from the top of the tree, after the tests are built; BUILD may be set.
BUILD=${BUILD:-build}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
number=0
failed=0

result() { # result STATUS NAME: prints one TAP line, and the job's output when it is a failure
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

job() { # job ARGUMENTS: leaves the exit status in $status, all output in $out
    timeout -k 5 60 tools/mpirun.sh -np 2 "$BUILD/tests/comm/far_bounds_driver" "$@" >"$out" 2>&1
    status=$?
}

stopped() { # stopped TEXT: by an ASSERT of that text
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && grep -q -F "this is a bug in Trine" "$out" &&
        grep -q -F -- "$1" "$out"
}

echo "1..5"

job inside
[ "$status" -eq 0 ] && grep -q "it was done" "$out"
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
stopped "far_is_host(comm, data)"
result $? "a hash of device memory"

exit $failed
