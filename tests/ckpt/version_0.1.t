#!/bin/bash
# Checkpoints of version 0.1 (version_0.1/, written at commit 68e4d5e after two steps) load, and two more steps
# give the same bits as in 0.1 itself: step-4 has the hashes of its files, from its manifest. All
# runs are on the device ref, plain loops with the C library's functions of doubles, so that no processor's
# instructions choose the bits, and have tp 2: on one tp rank a product adds the residual by itself since 0.1.
set -eu
. tests/lib.sh

build=$(realpath "$BUILD")
here=$PWD/tests/ckpt/version_0.1
mpirun=$PWD/tools/mpirun.sh
cd "$dir"

# ends_alike KIND RANKS ARGUMENTS...
ends_alike() {
    rm -rf saved
    "$mpirun" -np "$2" "$build/train_gpt" --data-path "$here/tokens.bin" --num-layers 2 --hidden-size 4 \
        --num-attention-heads 2 --seq-length 8 --vocab-size 256 --threads 1 --device ref --global-batch-size 4 \
        --lr 0.01 --lr-decay-style constant --train-iters 4 --load "$here/$1/step-2" --save saved "${@:3}" || return 1
    grep '"blocks"' saved/step-4/manifest.json | tr -d '\t' | diff "$here/$1/step-4" -
}

mixed="--bf16 --untied --hidden-dropout 0.1 --attention-dropout 0.1"
half="--fp16 --initial-loss-scale 1024"
check "fp32, same layout" ends_alike plain 2 --tp 2
check "fp32, on two stages with a split backward pass" ends_alike plain 4 --tp 2 --pp 2 --split-backward
# shellcheck disable=SC2086  # words are meant to be split
check "bf16 and dropout, same layout" ends_alike mixed 8 --dp 2 --tp 2 --pp 2 --zero 3 $mixed
# shellcheck disable=SC2086
check "bf16 and dropout, on one stage with ZeRO-2" ends_alike mixed 4 --dp 2 --tp 2 --zero 2 $mixed
# shellcheck disable=SC2086
check "fp16, same layout" ends_alike half 4 --dp 2 --tp 2 --zero 1 $half
# shellcheck disable=SC2086
check "fp16, on two stages without ZeRO" ends_alike half 8 --dp 2 --tp 2 --pp 2 $half
done_testing
