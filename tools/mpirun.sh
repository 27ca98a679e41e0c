#!/bin/sh
# Calls the MPI launcher with the options that it needs. Takes mpirun's arguments
# (tools/mpirun.sh -np 8 PROGRAM ARGUMENTS...) and adds those that are needed to run as root, without ssh and
# with more ranks than cores, under Open MPI and MPICH. MPIRUN names another launcher (default: mpirun).
#
# Ranks are not bound: tests and demo share few cores, and the library sets its number of threads from
# the affinity mask and the ranks on the node. OMP_NUM_THREADS is set (to cores / ranks, at least 1)
# only if it is not set already and all ranks run here: eight ranks with a thread per core each would
# wait for each other most of the time.
#
# Signals (Open MPI only; MPICH and Intel MPI pass them on by themselves). On SIGINT or SIGTERM Open MPI's mpirun sends
# its ranks SIGTERM and a second later SIGKILL, which is no time to save a model, and exits with status 1. So this
# script waits for mpirun, in which SIGINT, SIGTERM and SIGHUP are blocked, and on the first of them has it pass
# SIGUSR1 on to all ranks: a training with --save saves and exits with status 75, what does not know the signal ends by
# it. A second one kills the ranks. If the job did not end by itself, the script ends by the signal that it received.
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

# Processes are remembered as PID:BORN, since the number of one that has ended may soon be that of another, which nobody
# here may signal.

# born PID: sets $born, when it was started, in ticks since the machine was; empty: it is not there. The shell reads it
# itself: SIGINT from a terminal would end another command, and a shell that waits for its output.
born() {
    born=
    { read -r born <"/proc/$1/stat"; } 2>/dev/null || true
    # shellcheck disable=SC2086  # fields, behind the name
    set -- ${born##*) }
    born=${20:-}
}

# is_there KNOWN: whether the process is still there, perhaps as a zombie
is_there() {
    born "${1%:*}"
    [ "$born" = "${1#*:}" ] && kill -0 "${1%:*}" 2>/dev/null
}

# signal SIGNAL KNOWN: fails where the process is no longer there
signal() {
    is_there "$2" && kill -s "$1" "${2%:*}" 2>/dev/null
}

# is_alive KNOWN
is_alive() {
    is_there "$1" && ! grep -q '^State:[[:space:]]*Z' "/proc/${1%:*}/status" 2>/dev/null
}

# dead_job PID: true if it has children and all of them are zombies
dead_job() {
    found=1
    for child in $(children "$1"); do
        grep -q '^State:[[:space:]]*Z' "/proc/$child/status" 2>/dev/null || return 1
        found=0
    done
    return $found
}

# children PID
children() {
    cat "/proc/$1/task/$1/children" 2>/dev/null
}

# dead_status PID: the status of its dead children, as a shell shows it: of the first that exited with another than 0, or
# else was ended by a signal, as mpirun ends the others
dead_status() {
    exited=0 ended=0
    for child in $(children "$1"); do
        code=$(sed 's/.*) //' "/proc/$child/stat" 2>/dev/null | cut -d ' ' -f 50)
        code=${code:-0}
        if [ $((code & 127)) -ne 0 ]; then
            [ $ended -ne 0 ] || ended=$((128 + (code & 127)))
        elif [ $exited -eq 0 ]; then
            exited=$((code >> 8))
        fi
    done
    if [ $exited -ne 0 ]; then echo $exited; else echo $ended; fi
}

# After an abort on a busy machine Open MPI 4.1's mpirun (with PMIx 4.2) sometimes deadlocks in
# PMIx_server_finalize: all ranks are dead, and it never reaps them. Kills it after ten seconds in that state, and writes
# the ranks' status, which mpirun would have exited with, to descriptor 4; at once if this script was killed.
kill_if_hung() { # kill_if_hung MPIRUN SCRIPT, both as they are remembered
    dead=0 pid=${1%:*}
    while is_there "$1"; do
        sleep 1
        is_alive "$2" || signal KILL "$1"
        if dead_job "$pid"; then dead=$((dead + 1)); else dead=0; fi
        [ $dead -lt 10 ] && continue
        is_there "$1" || return 0
        echo "tools/mpirun.sh: all ranks have exited, but mpirun hangs in its clean-up; killing it" \
            2>/dev/null >>"/proc/$pid/fd/2"
        { dead_status "$pid" >&4; } 2>/dev/null || true
        signal KILL "$1"
    done
}

# watch MPIRUN SCRIPT: MPIRUN as it is remembered, SCRIPT a number; in a subshell, so that it is a child of neither. It
# must not keep the outputs open, or a reader of a pipe waits for it. The script's birth is read here, by another
# process: QEMU makes up what a process that it emulates reads in its own /proc/PID/stat.
watch() {
    (
        exec </dev/null >/dev/null 2>&1 3<&-
        trap '' INT TERM HUP
        born "$2"
        kill_if_hung "$1" "$2:$born" &
    )
}

# pass SIGNAL...: on to mpirun. What mpirun is told while it starts its ranks is lost for some of them, so a young
# mpirun is told again, for half a minute at most.
pass() {
    signal "$1" "$job" || return 0
    [ $(($(date +%s) - began)) -lt 10 ] || return 0
    (
        exec </dev/null >/dev/null 2>&1
        for seconds in 1 2 4 8 16; do
            sleep $seconds
            signal "$1" "$job" || break
        done &
    )
}

# end_by SIGNAL: returns if the signal is ignored
end_by() {
    trap - "$1"
    kill -s "$1" $$
}

# asked SIGNAL: the script has received it
asked() {
    told=$1
    if [ -z "$job" ] && [ -n "${!:-}" ]; then
        born "$!"
        job=$!:$born
    fi
    if [ -z "$job" ]; then end_by "$1"; fi
    if [ -z "$first" ]; then
        first=$1
        echo "tools/mpirun.sh: SIG$1: the ranks are asked to end (SIGUSR1); a second signal kills them" >&2
        pass USR1
        return
    fi
    is_there "$job" || return 0
    for rank in $(children "${job%:*}"); do kill -KILL "$rank" 2>/dev/null || true; done
}

# attend ARGUMENTS...: runs mpirun and exits as it does
attend() {
    first='' told='' job=''
    began=$(date +%s)
    trap 'asked INT' INT
    trap 'asked TERM' TERM
    trap 'asked HUP' HUP
    trap 'told=USR1; pass USR1' USR1
    trap 'told=USR2; signal USR2 "$job" || true' USR2
    # A background job reads from /dev/null otherwise.
    if [ -e /proc/self/fd/0 ]; then exec 3<&0; else exec 3</dev/null; fi
    # A pipe without a name: for what the watch over mpirun has to say.
    pipe=$(mktemp -u) && mkfifo -m 600 "$pipe" && exec 4<>"$pipe" && rm "$pipe"
    # Ignored, SIGUSR1 does not end an mpirun that does not handle it yet, or no longer. Ranks are started while it does.
    env --default-signal=INT,QUIT --ignore-signal=USR1,USR2 --block-signal=INT,TERM,HUP \
        "$mpirun" --oversubscribe --bind-to none "$@" <&3 3<&- 4<&- &
    born $!
    job=$!:$born
    exec 3<&-
    watch "$job" $$
    # A trap interrupts the wait; if mpirun has exited meanwhile, it may be known no longer (127).
    status=127
    while
        told=
        now=0
        wait "${job%:*}" || now=$?
        [ $now -eq 127 ] && [ $status -ne 127 ] || status=$now
        [ -n "$told" ]
    do :; done
    echo - >&4
    read -r hung <&4
    [ "$hung" = - ] || status=$hung
    [ -n "$first" ] && [ "$status" -gt 128 ] || exit "$status"
    end_by "$first"
    exit "$status"
}

version=$("$mpirun" --version 2>&1) || true
case $version in
    *"Open MPI"* | *PRRTE* | *OpenRTE*)
        open_mpi
        if env --block-signal=INT true 2>/dev/null; then attend "$@"; fi
        # An env of coreutils before 8.31: signals have mpirun's effect.
        born $$
        watch "$$:$born" "$$:$born"
        exec "$mpirun" --oversubscribe --bind-to none "$@"
        ;;
    *"Intel(R) MPI"*) I_MPI_PIN=${I_MPI_PIN:-0} exec "$mpirun" "$@" ;;
    *HYDRA*) exec "$mpirun" -bind-to none "$@" ;;
    *) exec "$mpirun" "$@" ;;
esac
