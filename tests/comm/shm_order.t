#!/bin/sh
# TEST longer=races ranks=2
# The orders of shared memory's protocols, by ThreadSanitizer: shm_order_driver.c. A store that does not release, or a
# load that does not acquire, is a race on any processor.
. tests/lib.sh

rounds=${TRINE_FULL:+1500}

# The sanitizer of GCC 12 does not know where newer kernels put programs.
fixed=
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed="setarch $(uname -m) -R"; fi

ordered() { # ordered CASE WHAT: no race, and the right numbers
    # shellcheck disable=SC2086  # split into arguments
    OMP_NUM_THREADS=1 TSAN_OPTIONS="halt_on_error=1" run $fixed "$BUILD/tests/comm/shm_order_driver" "$1" "${rounds:-60}"
    [ "$status" = 0 ] && [ ! -s "$dir/err" ]
    result $? "$2"
}

ordered payload "payloads in the ring: arrivals, and entries that are used again"
ordered direct "buffers that are read in place: arrivals and phases"
ordered staged "staging memory: the phases between segments"
ordered from-one "short calls from one rank: posts, and halves that are free again"
ordered to-one "short calls to one rank"
ordered started "started calls, whose arrivals are looked at"
ordered short-messages "messages in the outbox, whose places are used again"
ordered long-messages "messages that are read in place"

done_testing
