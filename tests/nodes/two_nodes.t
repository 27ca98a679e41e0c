#!/bin/bash
# TEST full=train
#
# Eight ranks on two nodes compared with eight ranks on one: losses and gradient norms must be equal
# in all of their 17 digits. The nodes are those of tests/nodes/nodes.sh; a script replaces
# ssh. Needs root and Open MPI. TRAINER is a command that takes --log FILE; without it train_gpt runs in two
# layouts.
set -euo pipefail
. tests/lib.sh
. tests/nodes/nodes.sh
build=$(realpath "$BUILD")
mpirun=${MPIRUN:-mpirun}

clean_up() {
    nodes_remove
    rm -rf "$dir"
}

# Bytes that node 1 has received and sent over the network.
wire_bytes() {
    tests/nodes/agent.sh "$NODE_NET.1" cat /sys/class/net/veth/statistics/{r,t}x_bytes |
        awk '{ n += $1 } END { print n }'
}

# mpirun on node 1, with both nodes in the host file. It cannot know that both nodes share this machine's cores, so
# yielding is set explicitly.
on_two_nodes() {
    tests/nodes/agent.sh "$NODE_NET.1" timeout -k 5 180 tools/mpirun.sh -np 8 --hostfile "$dir/hosts" --map-by "${MAP:-slot}" \
        --mca plm rsh --mca plm_rsh_agent "$PWD/tests/nodes/agent.sh" --mca plm_rsh_no_tree_spawn 1 \
        --mca oob_tcp_if_include "$NODE_NET.0/24" --mca btl_tcp_if_include "$NODE_NET.0/24" --mca btl tcp,self,vader \
        --mca pml ob1 --mca mpi_yield_when_idle 1 -x OMP_NUM_THREADS "$@"
}

on_one_node() {
    timeout -k 5 180 tools/mpirun.sh -np 8 "$@"
}

# check NAME COMMAND...
hosts_seen() {
    [ "$(on_two_nodes cat /proc/sys/kernel/hostname | sort | uniq -c | awk '{ printf "%s %s ", $1, $2 }')" = \
        "4 ${NODE_PREFIX}1 4 ${NODE_PREFIX}2 " ]
}

# A log without numbers must not count as equal.
same_numbers() {
    numbers "$1" >"$dir/one" && numbers "$2" >"$dir/two" && grep -q '"loss":[0-9]' "$dir/one" &&
        diff "$dir/one" "$dir/two"
}

# The launch itself sends some bytes (measured first): the run must send many more.
over_the_wire() {
    echo "launch alone: $1 bytes; with the run: $2"
    [ "$2" -gt $((2 * $1)) ]
}

# compare NAME COMMAND...
compare() {
    local name=$1 before launch
    shift
    before=$(wire_bytes)
    check "$name: two nodes with four ranks each" hosts_seen
    launch=$(($(wire_bytes) - before))
    check "$name: runs on one node" on_one_node "$@" --log "$dir/one.jsonl"
    before=$(wire_bytes)
    check "$name: runs on two nodes" on_two_nodes "$@" --log "$dir/two.jsonl"
    check "$name: the ranks communicate over the network" over_the_wire "$launch" $(($(wire_bytes) - before))
    check "$name: the same losses and norms" same_numbers "$dir/one.jsonl" "$dir/two.jsonl"
    rm -f "$dir"/*.jsonl
}

[ "$(id -u)" = 0 ] || skip_all "two nodes: needs root"
for tool in ip unshare; do
    command -v $tool >/dev/null || skip_all "two nodes: $tool not found"
done
case $("$mpirun" --version 2>&1) in *"Open MPI"*) ;; *) skip_all "two nodes: needs Open MPI" ;; esac
trap clean_up EXIT
trap 'exit 1' INT TERM
nodes_make 2>"$dir/why" || skip_all "two nodes: cannot create network namespaces: $(head -1 "$dir/why")"
for n in 1 2; do echo "$NODE_NET.$n slots=4"; done >"$dir/hosts"

# Ranks that alternate between the nodes: every tp group spans both, and the banner says so.
alternating() {
    MAP=node on_two_nodes "$build/train_gpt" $1 --dp 2 --tp 2 --pp 2 >"$dir/out" 2>"$dir/err" || return 1
    prints 1 "nodes per group: tp 2, dp 1, pp 1" && prints 1 "warning: a tp group spans 2 nodes" &&
        [ "$(grep -c -F "[0-1] ${NODE_PREFIX}1+${NODE_PREFIX}2" "$dir/out")" -eq 1 ] || return 1
    on_two_nodes "$build/train_gpt" $1 --dp 2 --tp 2 --pp 2 >"$dir/out" 2>"$dir/err" &&
        prints 1 "nodes per group: tp 1, dp 1, pp 2" && prints 0 "warning: a tp" && prints 1 "[0-1] ${NODE_PREFIX}1 "
}

# Equal bits are promised for equal thread counts.
export OMP_NUM_THREADS=1
if [ -n "${TRAINER:-}" ]; then
    # shellcheck disable=SC2086
    compare "$TRAINER" $TRAINER
else
    "$build/trine-tokens" --out "$dir/text" include/trine.h >/dev/null
    small="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32
        --micro-batch-size 1 --global-batch-size 16 --train-iters 5 --lr 3e-4 --seed 7 --threads 1
        --data-path $dir/text_train.bin"
    # shellcheck disable=SC2086
    check "the banner has the nodes of each group" alternating "$small"
    # shellcheck disable=SC2086
    compare "pipeline between the nodes" "$build/train_gpt" $small --dp 2 --tp 2 --pp 2 --zero 1
    # shellcheck disable=SC2086
    compare "data parallel between the nodes" "$build/train_gpt" $small --dp 8 --tp 1 --pp 1 --zero 3
fi
done_testing
