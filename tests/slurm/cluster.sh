# shellcheck shell=bash
# A Slurm cluster on this machine, for tests: two nodes of tests/nodes/nodes.sh, each with its own slurmd,
# processes and /dev/shm, and a slurmctld in node 1's network that survives node 1. Configuration, keys,
# sockets, state and logs are in $dir/cluster. The configuration gives each node 32 CPUs, so that jobs run
# concurrently. Needs root, Slurm and munge. Sourced from the root of the repository, after tests/lib.sh.
. tests/nodes/nodes.sh
cluster=$dir/cluster
export SLURM_CONF=$cluster/slurm.conf
cluster_pids=()
node_pids=(0 0 0)
policy=

# Debian's packages start their services on installation, unless this file forbids it.
cluster_install() {
    local path=/usr/sbin/policy-rc.d
    if [ ! -e $path ]; then
        policy=$path
        printf '#!/bin/sh\nexit 101\n' >$path
        chmod +x $path
    fi
    packages slurm || return 1
    [ -z "$policy" ] || rm -f "$policy"
}

# cluster_said WHAT: on standard error what the daemons said last, then that they did not do WHAT, as the last line
cluster_said() {
    local log last
    for log in "$cluster"/*.out "$cluster/munge/log" "$cluster"/*.log; do
        [ -s "$log" ] || continue
        tail -n 5 "$log" | sed "s|^|${log##*/}: |" >&2
        last="${last:+$last; }${log##*/}: $(tail -n 1 "$log")"
    done
    echo "$1: ${last:-no daemon said anything}" >&2
    return 1
}

configuration() {
    local n
    cat <<END
ClusterName=trine
SlurmctldHost=${NODE_PREFIX}1($NODE_NET.1)
SlurmUser=root
AuthInfo=socket=$cluster/munge/socket,cred_expire=3600
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool-%n
TmpFS=$cluster/tmp-%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd-%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd-%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=3600
KillWait=5
MinJobAge=3600
SchedulerParameters=batch_sched_delay=1,sched_interval=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
    for n in 1 2; do
        mkdir -p "$cluster/tmp-$NODE_PREFIX$n" # of srun's MPI plugin, whose files the nodes of a cluster do not share
        echo "NodeName=$NODE_PREFIX$n NodeAddr=$NODE_NET.$n CPUs=32 State=UNKNOWN"
    done
}

# daemon NAME COMMAND...: in the background until cluster_stop
daemon() {
    local log=$cluster/$1.out
    shift
    "$@" >>"$log" 2>&1 </dev/null &
    cluster_pids+=($!)
}

# node_start N
node_start() {
    daemon "node$1" tests/nodes/agent.sh "$NODE_NET.$1" \
        exec unshare --pid --kill-child --mount-proc tests/slurm/node.sh
    node_pids[$1]=$!
}

# node_kill N: kills all processes of the node
node_kill() {
    kill -9 "${node_pids[$1]}"
    wait "${node_pids[$1]}" 2>/dev/null || true
}

# node_down N: as an administrator does who knows that it is lost
node_down() {
    on_cluster scontrol update NodeName="$NODE_PREFIX$1" State=DOWN Reason=lost
}

# node_resume N: the node takes jobs again
node_resume() {
    on_cluster scontrol update NodeName="$NODE_PREFIX$1" State=RESUME
}

# nothing_to_say: Slurm has no message that it still tries to send, as the end of a job to a node that is lost
nothing_to_say() {
    [ "$(on_cluster sdiag | sed -n 's/^Agent \(queue size\|count\): *//p' | tr '\n' ' ')" = "0 0 " ]
}

# node_restarts N: not before that, or it would end the job's next run, whose number is the same
node_restarts() {
    eventually 300 nothing_to_say && node_start "$1"
}

# node_back N: restarts a node that is down
node_back() {
    node_restarts "$1" && node_resume "$1"
}

# down_after SECONDS: Slurm marks a node as down that has not answered for so long; an hour at first
down_after() {
    sed -i "s/^SlurmdTimeout=.*/SlurmdTimeout=$1/" "$SLURM_CONF" && on_cluster scontrol reconfigure
}

# node_freeze N: stops all processes of the node
node_freeze() {
    # shellcheck disable=SC2046
    kill -STOP $(ip netns pids "$NODE_PREFIX$1")
}

# node_state N: idle, mixed, down*, ... For one node alone (--nodes) Slurm 22.05 answers with what it last counted for
# all of them: a node without a job stays mixed.
node_state() {
    on_cluster sinfo --noheader --Node --format="%N %T" | sed -n "s/^$NODE_PREFIX$1 //p"
}

# on_cluster COMMAND...: runs a Slurm command
on_cluster() {
    ip netns exec "${NODE_PREFIX}1" "$@"
}

# cluster_start: returns 1, with the reason on standard error, if it cannot be started
cluster_start() {
    nodes_make || return 1
    # munge requires that all users can reach its socket.
    chmod 711 "$dir"
    mkdir -p "$cluster/state" "$cluster/munge"
    configuration >"$cluster/slurm.conf"
    # ip netns exec mounts another /sys, in which Slurm cannot detect the cgroup version.
    echo CgroupPlugin=cgroup/v1 >"$cluster/cgroup.conf"
    (umask 077 && head -c 128 /dev/urandom >"$cluster/munge/key")
    daemon munged munged --foreground --key-file="$cluster/munge/key" --socket="$cluster/munge/socket" \
        --pid-file="$cluster/munge/pid" --log-file="$cluster/munge/log" --seed-file="$cluster/munge/seed"
    eventually 300 test -S "$cluster/munge/socket" || cluster_said "munged makes no socket" || return 1
    daemon slurmctld tests/nodes/agent.sh "$NODE_NET.1" exec slurmctld -D
    node_start 1
    node_start 2
    eventually 300 both_idle || cluster_said "the nodes are \"$(node_state 1) $(node_state 2)\", not idle"
}

both_idle() {
    [ "$(node_state 1) $(node_state 2)" = "idle idle" ]
}

cluster_stop() {
    [ -z "$policy" ] || rm -f "$policy"
    if [ ${#cluster_pids[@]} -gt 0 ]; then
        kill -9 "${cluster_pids[@]}" 2>/dev/null || true
        wait "${cluster_pids[@]}" 2>/dev/null || true
    fi
    nodes_remove
}
