#!/bin/sh
# Calls the MPI launcher with the options that it needs. Takes mpirun's arguments
# (tools/mpirun.sh -np 8 PROGRAM ARGUMENTS...) and adds those that are needed to run as root, without ssh and
# with more ranks than cores, under Open MPI and MPICH. MPIRUN names another launcher (default: mpirun).
#
# Ranks are not bound: tests and demo share few cores, and the library sets its number of threads from
# the affinity mask and the ranks on the node. OMP_NUM_THREADS is set (to cores / ranks, at least 1)
# only if it is not set already and all ranks run here: eight ranks with a thread per core each would
# wait for each other most of the time.
set -eu

mpirun=${MPIRUN:-mpirun}
[ "$(realpath "$(command -v "$mpirun" || echo /)")" != "$(realpath "$0")" ] || {
    echo "tools/mpirun.sh: MPIRUN=$mpirun is this script; set it to an MPI launcher" >&2
    exit 2
}
command -v "$mpirun" >/dev/null || {
    echo "tools/mpirun.sh: $mpirun not found; make deps installs Open MPI" >&2
    exit 127
}

ranks=1 hosts=
[ "${SLURM_JOB_NUM_NODES:-1}" -eq 1 ] || hosts=slurm
previous=
for argument in "$@"; do
    case $previous in -np | -n | --np) ranks=$argument ;; esac
    case $argument in
        -np | -n | --np) ;;
        -host | --host | -hostfile | --hostfile | -machinefile | --machinefile | -f) hosts=yes ;;
        -x | -mca | --mca | -genv | -*) ;;
        # The first argument that looks like a program ends mpirun's own arguments.
        */*) case $previous in -*) ;; *) break ;; esac ;;
    esac
    previous=$argument
done
cores=$(nproc)

if [ -z "${OMP_NUM_THREADS:-}" ] && [ -z "$hosts" ] && [ "$ranks" -gt 1 ]; then
    OMP_NUM_THREADS=$((cores / ranks > 0 ? cores / ranks : 1))
    export OMP_NUM_THREADS
fi

open_mpi() {
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
    # Without ssh the rsh launcher refuses to start, even on one machine or where srun could be used.
    if [ "$hosts" != yes ] && ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
        plm=${SLURM_JOB_ID:+slurm}
        export OMPI_MCA_plm="${OMPI_MCA_plm:-${plm:-isolated}}"
    fi
    # Open MPI 5 with UCX prints an error for each shared window: osc/ucx fails, and osc/sm is used instead.
    case $version in *"Open MPI) 5"*) export OMPI_MCA_osc="${OMPI_MCA_osc:-^ucx}" ;; esac
    # With more ranks than cores a waiting rank must yield its core.
    if [ "$ranks" -gt "$cores" ]; then
        export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
    fi
}

# dead_job PID: true if it has children and all of them are zombies
dead_job() {
    found=1
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        grep -q '^State:[[:space:]]*Z' "/proc/$child/status" 2>/dev/null || return 1
        found=0
    done
    return $found
}

# After an abort on a busy machine Open MPI 4.1's mpirun (with PMIx 4.2) sometimes deadlocks in
# PMIx_server_finalize: all ranks are dead, and it never reaps them. Kills it after ten seconds in that state.
kill_if_hung() {
    dead=0
    while kill -0 "$1" 2>/dev/null; do
        sleep 1
        if dead_job "$1"; then dead=$((dead + 1)); else dead=0; fi
        [ $dead -lt 10 ] && continue
        echo "tools/mpirun.sh: all ranks have exited, but mpirun hangs in its clean-up; killing it" \
            2>/dev/null >>"/proc/$1/fd/2"
        kill -KILL "$1"
    done
}

version=$("$mpirun" --version 2>&1) || true
case $version in
    *"Open MPI"* | *PRRTE* | *OpenRTE*)
        open_mpi
        # Started by a subshell, so that it is not a child of mpirun. It must not keep the outputs open, or a reader
        # of a pipe waits for it.
        (exec </dev/null >/dev/null 2>&1; kill_if_hung $$ &)
        exec "$mpirun" --oversubscribe --bind-to none "$@"
        ;;
    *"Intel(R) MPI"*) I_MPI_PIN=${I_MPI_PIN:-0} exec "$mpirun" "$@" ;;
    *HYDRA*) exec "$mpirun" -bind-to none "$@" ;;
    *) exec "$mpirun" "$@" ;;
esac
