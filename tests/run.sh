#!/bin/sh
# Plans the tests (same arguments as tests/plan.sh) and runs them with prove; all must pass, and
# there must be at least one. PROVE_JOBS (cores + 1) is the number of slots: a test takes as many as it has ranks, at
# most all but one, a single process one, and those that fit run beside each other. Scripts, which mostly wait, have
# slots of their own, one less (tests/Slots.pm). PROVE_JOBS=1: one test at a time.
# PROVE_FLAGS are passed to prove (-v shows every case). Tests see only the commands of the packages in
# tools/deps.sh (tests/path.sh).
#
# The exit status is 77 if no test could be run: all were skipped.
set -eu

tests=$(tests/plan.sh "$@")
[ -n "$tests" ] || {
    echo "tests/run.sh: no test matches: $*" >&2
    exit 1
}
groups="build test"
case ${2:-all} in full*) export TRINE_FULL=1 groups= ;; esac
# Optional tools that may be outside of that PATH: a Python with torch, and nvcc (which must not be called through
# a link).
if python=$(command -v "${TRINE_PYTHON:-python3}"); then export TRINE_PYTHON="$python"; fi
if [ -z "${NVCC:-}${CUDA_HOME:-}" ] && nvcc=$(command -v nvcc); then export NVCC="$nvcc"; fi
# shellcheck disable=SC2086  # split into arguments
PATH=$(tests/path.sh "$1" $groups)
export PATH
. tests/environment.sh
# A parent may ignore signals, as Python and perf do, which every process below inherits: tests of signals would fail.
signals="env --default-signal=PIPE,XFSZ,USR1,USR2"
$signals true 2>/dev/null || signals=
status=0 slots=${PROVE_JOBS:-$(($(nproc) + 1))}
# shellcheck disable=SC2086  # split into arguments: paths without spaces
$signals perl -Itests -S prove --harness Slots --exec '' --timer --failures --comments \
    --jobs "$((2 * slots - 1))" ${PROVE_FLAGS:-} $tests || status=$?
if [ $status = 0 ] && [ "$(echo "$tests" | wc -l)" = "$(grep -c '	all	' "$1/t/skips")" ]; then exit 77; fi
exit $status
