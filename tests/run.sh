#!/bin/sh
# Plans the tests (same arguments as tests/plan.sh) and runs them with prove; all must pass, and
# there must be at least one. PROVE_JOBS (cores + 1) is the number of slots: a test takes as many as it has ranks,
# at most all but one, a script or a single process one, and those that fit run beside each other (tests/Slots.pm).
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
# Waiting threads sleep instead of spinning. On a busy machine they would spin for the full time slice of the
# thread that they wait for: bench/run took 11 s of CPU time at a load of 12, and takes 1 s.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
# A rank that waits in Open MPI gives its core to the tests beside it. (tools/mpirun.sh asks for this only where a job
# has more ranks than cores.) comm/shm_life on 2 ranks was not done after 9 s of CPU time at a load of 40; now 0.7.
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
# UCX, which Debian's MPICH uses, intercepts mmap, as zero/allocation does.
export UCX_MEM_MMAP_HOOK_MODE=none
status=0
# shellcheck disable=SC2086  # split into arguments: paths without spaces
perl -Itests -S prove --harness Slots --exec '' --timer --failures --comments \
    --jobs "${PROVE_JOBS:-$(($(nproc) + 1))}" ${PROVE_FLAGS:-} $tests || status=$?
if [ $status = 0 ] && [ "$(echo "$tests" | wc -l)" = "$(grep -c '	all	' "$1/t/skips")" ]; then exit 77; fi
exit $status
