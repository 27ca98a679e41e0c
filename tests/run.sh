#!/bin/sh
# Plans the tests (the same arguments as tests/plan.sh) and runs them with prove; all must pass, and
# there must be some. Of those that tests/rules.yml lets run beside each other PROVE_JOBS do, one more
# than there are cores if not said. PROVE_FLAGS are handed on (-v shows every case).
set -eu

tests=$(tests/plan.sh "$@")
[ -n "$tests" ] || {
    echo "tests/run.sh: no test matches: $*" >&2
    exit 1
}
case ${2:-all} in full*) export TRINE_FULL=1 ;; esac
export HARNESS_RULESFILE=tests/rules.yml
# shellcheck disable=SC2086  # words are meant to be split: paths without spaces
exec prove --exec '' --timer --failures --comments --jobs "${PROVE_JOBS:-$(($(nproc) + 1))}" \
    ${PROVE_FLAGS:-} $tests
