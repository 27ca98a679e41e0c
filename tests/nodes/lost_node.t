#!/bin/bash
# TEST full=lost
#
# examples/train_gpt_hosts.sh with a real launcher: two nodes with two ranks each (tests/nodes/nodes.sh), of which one is
# killed and comes back. Its probes are starts of mpirun. Needs root and Open MPI.
set -uo pipefail
. tests/lib.sh
needs awk
. tests/nodes/nodes.sh
build=$(realpath "$BUILD")
mpirun=${MPIRUN:-mpirun}

clean_up() {
    nodes_remove
    rm -rf "$dir"
}

[ "$(id -u)" = 0 ] || skip_all "a lost node: needs root"
for tool in ip unshare; do
    command -v $tool >/dev/null || skip_all "a lost node: $tool not found"
done
case $("$mpirun" --version 2>&1) in *"Open MPI"*) ;; *) skip_all "a lost node: needs Open MPI" ;; esac
trap clean_up EXIT
trap 'exit 1' INT TERM
nodes_make 2>"$dir/why" || skip_all "a lost node: cannot create network namespaces: $(head -1 "$dir/why")"
for n in 1 2; do echo "$NODE_NET.$n slots=2"; done >"$dir/hosts"
"$build/trine-tokens" --out "$dir/text" include/trine.h >/dev/null

# agent HOST COMMAND...: as ssh, fails where the node is dead
printf '#!/bin/sh\n[ ! -e "%s/dead-$1" ] || exit 255\nexec "%s/tests/nodes/agent.sh" "$@"\n' "$dir" "$PWD" >"$dir/agent"
# train ARGUMENTS...: without end; started where $dir/last exists, for 60 steps more than the newest checkpoint
cat >"$dir/train" <<END
#!/bin/sh
steps=1000000000
if [ -e "$dir/last" ]; then
    newest=\$(cat "$dir/run/latest")
    steps=\$((\${newest#step-} + 60))
fi
exec "$build/train_gpt" "\$@" --train-iters "\$steps"
END
chmod +x "$dir/agent" "$dir/train"

# Equal bits are promised for equal thread counts.
export OMP_NUM_THREADS=1
small="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1
    --global-batch-size 16 --lr 3e-3 --lr-decay-iters 100000 --seed 7 --threads 1 --data-path $dir/text_train.bin
    --dp 2 --tp 2 --zero 1 --exact --log-interval 0"
launch="tools/mpirun.sh --mca plm rsh --mca plm_rsh_agent $dir/agent --mca plm_rsh_no_tree_spawn 1
    --mca oob_tcp_if_include $NODE_NET.0/24 --mca btl_tcp_if_include $NODE_NET.0/24 --mca btl tcp,self,vader
    --mca pml ob1 --mca mpi_yield_when_idle 1 -x OMP_NUM_THREADS"

# trains: waits for some more steps, and a checkpoint among them
trains() {
    eventually 300 lines $(($(steps_in "$log") + 60))
}

# on RANKS LAYOUT: the script has started the last time on so many
on() {
    [ "$(sed -n 's/^train_gpt_hosts.sh: starts on //p' "$dir/out" | tail -n 1)" = "$1 ranks: $2" ]
}

goes_on() {
    eventually 300 on "$1" "$2" && trains
}

# node_lost: all processes of node 2 are killed, and it does not answer
node_lost() {
    : >"$dir/dead-$NODE_NET.2"
    # shellcheck disable=SC2046  # one a process
    kill -9 $(ip netns pids "${NODE_PREFIX}2")
}

ends() {
    finish
    [ "$status" -eq 0 ] && [ "$(cat "$dir/run/latest")" = "step-$(steps_in "$log")" ]
}

undisturbed() {
    # shellcheck disable=SC2086  # words are meant to be split
    timeout 180 tools/mpirun.sh -np 4 "$build/train_gpt" $small --train-iters "$(steps_in "$log")" --log "$dir/four" &&
        all_numbers "$log" >"$dir/a" && all_numbers "$dir/four" >"$dir/b" && cmp "$dir/a" "$dir/b"
}

: >"$log"
# shellcheck disable=SC2086  # words are meant to be split
background tests/nodes/agent.sh "$NODE_NET.1" env HOSTS="$dir/hosts" LAUNCH="'$launch'" WATCH_SECONDS=2 \
    TRAIN="$dir/train" examples/train_gpt_hosts.sh $small --save "$dir/run" --save-interval 50 --log "$log"
check "both nodes: 4 ranks" goes_on 4 "--dp 2 --tp 2 --pp 1 --exact-dp 16 --exact-tp 2"
node_lost
check "a node is lost: 2 ranks" goes_on 2 "--dp 1 --tp 2 --pp 1 --exact-dp 16 --exact-tp 2"
: >"$dir/last"
rm "$dir/dead-$NODE_NET.2"
check "it is back: 4 ranks after the next checkpoint" eventually 300 on 4 "--dp 2 --tp 2 --pp 1 --exact-dp 16 --exact-tp 2"
check "it ends with the last step" ends
check "the steps of a run that lost nothing" undisturbed
done_testing
