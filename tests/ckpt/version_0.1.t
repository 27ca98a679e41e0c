#!/bin/bash
# Checkpoints of version 0.1 (version_0.1/, written at commit 68e4d5e after two steps) load, and two more steps
# from there end in the bits that 0.1 itself ended in: step-4 has the hashes of its files, from its manifest. All
# runs are on the device ref, plain loops with the C library's functions of doubles, so that no processor's
# instructions choose the bits, and have tp 2: on one tp rank a product adds the residual by itself since 0.1.
set -eu

build=$(cd "${BUILD:-build}" && pwd)
here=$PWD/tests/ckpt/version_0.1
mpirun=$PWD/tools/mpirun.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
count=0

# goes_on NAME KIND RANKS ARGUMENTS...
goes_on() {
    local name=$1 kind=$2 ranks=$3 ok=not
    shift 3
    count=$((count + 1))
    if "$mpirun" -np "$ranks" "$build/train_gpt" --data-path "$here/tokens.bin" --num-layers 2 --hidden-size 4 \
        --num-attention-heads 2 --seq-length 8 --vocab-size 256 --threads 1 --device ref --global-batch-size 4 \
        --lr 0.01 --lr-decay-style constant --train-iters 4 --load "$here/$kind/step-2" --save "run$count" "$@" \
        >said 2>&1; then
        grep '"blocks"' "run$count/step-4/manifest.json" | tr -d '\t' >hashes
        if diff "$here/$kind/step-4" hashes >>said; then ok=; fi
    fi
    echo "${ok:+not }ok $count - $name"
    if [ -n "$ok" ]; then sed 's/^/# /' said; fi
}

mixed="--bf16 --untied --hidden-dropout 0.1 --attention-dropout 0.1"
half="--fp16 --initial-loss-scale 1024"
goes_on "fp32, as it was written" plain 2 --tp 2
goes_on "fp32, on stages, the gradients of weights apart" plain 4 --tp 2 --pp 2 --split-backward
# shellcheck disable=SC2086  # words are meant to be split
goes_on "bf16 and dropout, as it was written" mixed 8 --dp 2 --tp 2 --pp 2 --zero 3 $mixed
# shellcheck disable=SC2086
goes_on "bf16 and dropout, on one stage with ZeRO-2" mixed 4 --dp 2 --tp 2 --zero 2 $mixed
# shellcheck disable=SC2086
goes_on "fp16, as it was written" half 4 --dp 2 --tp 2 --zero 1 $half
# shellcheck disable=SC2086
goes_on "fp16, on two stages without ZeRO" half 8 --dp 2 --tp 2 --pp 2 $half
echo "1..$count"
