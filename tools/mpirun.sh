#!/bin/sh
# The one place that knows how an MPI launcher wants to be called. Takes mpirun's arguments
# (tools/mpirun.sh -np 8 PROGRAM ARGUMENTS...) and adds what makes them work as root, without ssh and
# with more ranks than cores, under Open MPI and under MPICH. MPIRUN names another launcher.
#
# Ranks are not bound: tests and demo share few cores, and the library sets its threads itself from
# the affinity mask and the ranks on the node. OMP_NUM_THREADS is set (to cores / ranks, at least 1)
# only when it is not set already and all ranks run here: eight ranks that each start a thread per core
# wait for each other most of the time.
set -eu

mpirun=${MPIRUN:-mpirun}
[ "$(realpath "$(command -v "$mpirun" || echo /)")" != "$(realpath "$0")" ] || {
    echo "tools/mpirun.sh: MPIRUN=$mpirun is this script; it names the launcher that this script calls" >&2
    exit 2
}
command -v "$mpirun" >/dev/null || {
    echo "tools/mpirun.sh: no $mpirun here; make deps installs Open MPI" >&2
    exit 127
}

ranks=1 hosts=
[ "${SLURM_JOB_NUM_NODES:-1}" -eq 1 ] || hosts=slurm
previous=
for word in "$@"; do
    case $previous in -np | -n | --np) ranks=$word ;; esac
    case $word in
        -np | -n | --np) ;;
        -host | --host | -hostfile | --hostfile | -machinefile | --machinefile | -f) hosts=yes ;;
        -x | -mca | --mca | -genv | -*) ;;
        # The first word that looks like a program ends mpirun's own arguments.
        */*) case $previous in -*) ;; *) break ;; esac ;;
    esac
    previous=$word
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
    # Without ssh the rsh launcher refuses to start: on this machine alone, and where srun could do it, too.
    if [ "$hosts" != yes ] && ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
        plm=${SLURM_JOB_ID:+slurm}
        export OMPI_MCA_plm="${OMPI_MCA_plm:-${plm:-isolated}}"
    fi
    # Open MPI 5 with UCX prints an error of its own with each shared window: its osc/ucx fails where osc/sm does it.
    case $version in *"Open MPI) 5"*) export OMPI_MCA_osc="${OMPI_MCA_osc:-^ucx}" ;; esac
    # A waiting rank must give its core away when there are not enough of them.
    if [ "$ranks" -gt "$cores" ]; then
        export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
    fi
}

# dead_job PID: it has children, and all are zombies.
dead_job() {
    found=1
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        grep -q '^State:[[:space:]]*Z' "/proc/$child/status" 2>/dev/null || return 1
        found=0
    done
    return $found
}

# After an abort on a busy machine Open MPI 4.1's mpirun (with PMIx 4.2) now and then locks itself up in
# PMIx_server_finalize: every rank is dead, and it waits for ever without burying them. Ends it when
# that has lasted ten seconds.
bury() {
    dead=0
    while kill -0 "$1" 2>/dev/null; do
        sleep 1
        if dead_job "$1"; then dead=$((dead + 1)); else dead=0; fi
        [ $dead -lt 10 ] && continue
        echo "tools/mpirun.sh: all ranks have ended and mpirun hangs in its own clean-up; ending it" \
            2>/dev/null >>"/proc/$1/fd/2"
        kill -KILL "$1"
    done
}

version=$("$mpirun" --version 2>&1) || true
case $version in
    *"Open MPI"* | *PRRTE* | *OpenRTE*)
        open_mpi
        # Through a process in between, so that it is no child of what this shell becomes. It must not
        # hold the outputs open, or who reads them from a pipe waits for its next look at the ranks.
        (exec </dev/null >/dev/null 2>&1; bury $$ &)
        exec "$mpirun" --oversubscribe --bind-to none "$@"
        ;;
    *"Intel(R) MPI"*) I_MPI_PIN=${I_MPI_PIN:-0} exec "$mpirun" "$@" ;;
    *HYDRA*) exec "$mpirun" -bind-to none "$@" ;;
    *) exec "$mpirun" "$@" ;;
esac
