#!/bin/sh
# What tests/build/aarch64.t runs on a processor that is emulated, and therefore small. Usage:
#
#     tests/build/emulated.sh base|core|comm|ops|golden   the folder's tests, on at most four ranks, without those that
#                                                        take minutes there or use an emulated GPU
#     tests/build/emulated.sh train TEXT OUT             a training in three dimensions: 8 ranks as tp 2, pp 2 and dp 2
#                                                        with ZeRO-3, saved, resumed on 4 ranks as tp 2 and dp 2, and
#                                                        text from it; OUT: the losses, "step loss" a line
set -eu

build=${BUILD:-build}
# Open MPI copies between processes with a system call that QEMU does not know.
export OMPI_MCA_btl_vader_single_copy_mechanism=none

tests() { # tests FOLDER NAME...
    folder=$1 only=
    shift
    for name in "$@"; do only="$only $folder/$name"; done
    # shellcheck disable=SC2086  # a list of names
    MOST_RANKS=4 exec tests/run.sh "$build" all ${only:-$folder}
}

train() { # train TEXT OUT
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    out=$2
    "$build/trine-tokens" --out "$dir/tokens" "$1" >/dev/null
    set -- --data-path "$dir/tokens_train.bin" --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
        --micro-batch-size 2 --global-batch-size 16 --lr 1e-3 --lr-warmup-iters 2 --seed 7 --save "$dir/run" --log "$dir/run.jsonl"
    tools/mpirun.sh -np 8 "$build/train_gpt" "$@" --tp 2 --pp 2 --dp 2 --zero 3 --train-iters 6
    tools/mpirun.sh -np 4 "$build/train_gpt" "$@" --tp 2 --dp 2 --zero 3 --train-iters 12 --load auto
    "$build/trine-generate" "$dir/run" --prompt "The " --tokens 20 --temperature 0 >"$dir/text"
    [ -s "$dir/text" ]
    sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.]*\).*/\1 \2/p' "$dir/run.jsonl" >"$out"
    [ "$(wc -l <"$out")" = 12 ]
}

case $1 in
    base | golden) tests "$1" ;;
    core) tests core check chunks cut flat instructions program prove reductions ;;
    comm) tests comm alike audit board clock mesh message order places shm_life shm_stress shm_wakeups split tally tree ;;
    ops) tests ops cpu device gradients matmul no_brgemm precision single spans threads ;;
    train) train "$2" "$3" ;;
    *)
        echo "tests/build/emulated.sh: unknown part \"$1\"; valid: base, core, comm, ops, golden, train" >&2
        exit 1
        ;;
esac
