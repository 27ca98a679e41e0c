#!/bin/sh
# Plans the tests (the same arguments as tests/plan.sh) and runs them with prove; all must pass, and
# there must be some. Of those that tests/rules.yml lets run beside each other PROVE_JOBS do, one more
# than there are cores if not said. PROVE_FLAGS are handed on (-v shows every case). Tests see the commands of
# the packages in tools/deps.sh and no others (tests/path.sh).
set -eu

tests=$(tests/plan.sh "$@")
[ -n "$tests" ] || {
    echo "tests/run.sh: no test matches: $*" >&2
    exit 1
}
groups="build test"
case ${2:-all} in full*) export TRINE_FULL=1 groups= ;; esac
# What users may have elsewhere, and is used where it is there: a Python with torch, nvcc (which is not to be
# called through a link).
if python=$(command -v "${TRINE_PYTHON:-python3}"); then export TRINE_PYTHON="$python"; fi
if [ -z "${NVCC:-}${CUDA_HOME:-}" ] && nvcc=$(command -v nvcc); then export NVCC="$nvcc"; fi
# shellcheck disable=SC2086  # words are meant to be split
PATH=$(tests/path.sh "$1" $groups)
export PATH
export HARNESS_RULESFILE=tests/rules.yml
# Threads that wait for each other sleep. They would spin, and on a busy machine for the whole time slice of the
# thread that they wait for: bench/run took 11 s of processor at a load of 12, and takes 1 s.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
# UCX, which Debian's MPICH moves its messages by, puts itself before mmap, and zero/allocation wants to be there.
export UCX_MEM_MMAP_HOOK_MODE=none
# shellcheck disable=SC2086  # words are meant to be split: paths without spaces
exec prove --exec '' --timer --failures --comments --jobs "${PROVE_JOBS:-$(($(nproc) + 1))}" \
    ${PROVE_FLAGS:-} $tests
