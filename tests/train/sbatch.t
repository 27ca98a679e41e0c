#!/bin/bash
# The launch line of examples/train_gpt.sbatch: its bash, with the variables that Slurm sets and commands that stand for
# Slurm's and MPI's. Under a real Slurm it runs in tests/slurm/sbatch.t.
set -eu
. tests/lib.sh

mkdir "$dir/bin"
# command_of NAME: the standard input is what this command does
command_of() {
    { echo '#!/bin/bash' && cat; } >"$dir/bin/$1"
    chmod +x "$dir/bin/$1"
}
command_of mpirun <<'END'
if [ "$*" = --version ]; then echo "$MPI_VERSION"; else echo "mpirun $*" >>"$CALLS"; fi
END
command_of scontrol <<'END'
echo "NodeName=n1 CPUAlloc=0 CPUEfctv=$PROCESSORS CPUTot=$PROCESSORS CoresPerSocket=64 Sockets=2 ThreadsPerCore=2"
END
command_of squeue </dev/null
command_of sinfo </dev/null
token_file "$data" 20240520 1 641 641
export CALLS=$dir/calls PROCESSORS=128 MPI_VERSION="mpirun (Open MPI) 4.1.4"
export SLURM_JOB_ID=1 SLURM_JOB_PARTITION=all SLURMD_NODENAME=n1

# launches LINE ARGUMENTS...: with these arguments the script calls mpirun once, with LINE before the trainer
launches() {
    local line=$1
    shift
    rm -f "$CALLS"
    PATH=$dir/bin:$PATH TRAIN=$BUILD/train_gpt bash examples/train_gpt.sbatch --data-path "$data" \
        --num-layers 8 --num-attention-heads 8 --save "$dir/run" "$@" || return 1
    cat "$CALLS"
    [ "$(wc -l <"$CALLS")" = 1 ] && grep -q "^mpirun $line $BUILD/train_gpt --load auto " "$CALLS"
}

export SLURM_CPUS_PER_TASK=16 SLURM_JOB_NUM_NODES=2 SLURM_TASKS_PER_NODE="8(x2)"
two_nodes() {
    launches "--map-by slot:PE=16 -n 16" --dp 8 --tp 2 --global-batch-size 16 && grep -q -e ' --dp 8 --tp 2 --pp 1' "$CALLS"
}
check "16 processors a task on two nodes of 128: 16 ranks of 16 cores" two_nodes
one_node() {
    SLURM_JOB_NUM_NODES=1 SLURM_TASKS_PER_NODE=8 launches "--map-by slot:PE=16 -n 8" --tp 2 --global-batch-size 16
}
check "on one node: 8 ranks, with the data-parallel ranks that there is room for" one_node
uneven() {
    SLURM_CPUS_PER_TASK=32 SLURM_TASKS_PER_NODE=4,2 launches "--map-by slot:PE=32 -n 6" --tp 2 --global-batch-size 6
}
check "nodes of 4 and 2 ranks, 32 processors each" uneven
hardware_threads() {
    PROCESSORS=256 SLURM_TASKS_PER_NODE="16(x2)" launches "--map-by slot:PE=8 -n 32" --tp 2 --global-batch-size 32
}
check "two hardware threads a core: 16 processors are 8 cores" hardware_threads
mpich() {
    MPI_VERSION="HYDRA build details: Version: 4.0.2" launches "-bind-to core:16 -n 16" --tp 2 --global-batch-size 16
}
check "MPICH's mpirun" mpich
own_launcher() {
    LAUNCH="mpirun --mine" launches "--mine -n 16" --tp 2 --global-batch-size 16
}
check "another launcher (LAUNCH)" own_launcher

# The script's own value would be overridden, and trine would warn of it at each start.
own_values() {
    launches "--map-by slot:PE=16 -n 16" --tp 2 --global-batch-size 16 --keep=7 --save-interval 20 &&
        [ "$(grep -o -e '--keep[^ ]*' -e '--save-interval [0-9]*' "$CALLS" | sort | xargs)" = "--keep=7 --save-interval 20" ] &&
        launches "--map-by slot:PE=16 -n 16" --tp 2 --global-batch-size 16 &&
        grep -q -e ' --load auto --save-interval 500 --keep 3 ' "$CALLS"
}
check "--save-interval and --keep are 500 and 3 unless they are given" own_values

refused() {
    rm -f "$CALLS"
    run env -u SLURM_CPUS_PER_TASK PATH="$dir/bin:$PATH" TRAIN="$BUILD/train_gpt" bash examples/train_gpt.sbatch
    cat "$dir/out"
    [ "$status" = 1 ] && grep -q "SLURM_CPUS_PER_TASK is not set: give sbatch --cpus-per-task=N" "$dir/out" && [ ! -e "$CALLS" ]
}
check "without SLURM_CPUS_PER_TASK it is refused" refused
done_testing
