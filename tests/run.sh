#!/bin/sh
# Plans the tests (the same arguments as tests/plan.sh) and runs them with prove; all must pass, and
# there must be some. PROVE_JOBS runs several at a time: wise only where there are cores for all their
# ranks. PROVE_FLAGS are handed on (-v shows every case).
set -eu

tests=$(tests/plan.sh "$@")
[ -n "$tests" ] || {
    echo "tests/run.sh: no test matches: $*" >&2
    exit 1
}
if [ "${2:-all}" = full ]; then export TRINE_FULL=1; fi
# shellcheck disable=SC2086  # words are meant to be split: paths without spaces
exec prove --exec '' --timer --failures --comments --jobs "${PROVE_JOBS:-1}" ${PROVE_FLAGS:-} $tests
