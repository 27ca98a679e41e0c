#!/bin/bash
# TEST ranks=2
# Several sizes in one launch (tests/harness.c): every case runs in every size, and none that fails is lost.
set -uo pipefail
. tests/lib.sh
unset TRINE_CASE # of whoever runs this script; the driver would read it

# job SIZES RANKS [NAME=VALUE...]
job() {
    local sizes=$1 ranks=$2
    shift 2
    run_ranks "$ranks" env TRINE_WORLDS="$sizes" "$@" "$BUILD/tests/build/worlds_driver"
}

# cases NAME...: the output is this stream, a plan and cases that pass, and comments
cases() {
    local n=0 name
    {
        echo "1..$#"
        for name in "$@"; do echo "ok $((n += 1)) - $name"; done
    } >"$dir/want"
    grep -v '^#' "$dir/out" | diff - "$dir/want" && [ "$status" -eq 0 ]
}

job "1 3 2" 3
check "one stream, the cases of each size in turn" \
    cases "np=1 meets" "np=1 fails" "np=3 meets" "np=3 fails" "np=2 meets" "np=2 fails"
job "1 2" 2 TRINE_CASE=m*s
check "chosen by its own name" cases "np=1 meets" "np=2 meets"
run_ranks 2 "$BUILD/tests/build/worlds_driver"
check "without sizes: all ranks" cases meets fails

# found SIZE RANK: such a failure ends the job, before the next size
found() {
    job "1 2 3" 3 TRINE_FAIL="$1 $2"
    ended && says 1 "as told" && ! grep -q "np=$(($1 + 1)) " "$dir/out"
}
check "a failure on one rank, others wait" found 1 0
check "a failure on the second of two ranks" found 2 1
check "on the last of all" found 3 2
too_many() {
    job "2 4" 3
    ended && ! grep -q '^ok' "$dir/out"
}
check "more ranks than the job has" too_many

# ---- A process that a case leaves

# alone: without mpirun, where Open MPI starts a process of its own
alone() { run env "$@" "$BUILD/tests/build/worlds_driver" && [ "$status" -eq "$ends" ]; }
ends=0
check "a rank without mpirun: what MPI has started stays" alone -u TRINE_LEAVE
ends=1
check "what a case has left is ended, and the test fails" alone TRINE_LEAVE=yes
check "and says so" says 1 "its cases have left 1 processes"
done_testing
