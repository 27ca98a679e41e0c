#!/bin/sh
# A training in three dimensions on a processor that is emulated, so it is small: 8 ranks as tp 2, pp 2 and dp 2 with ZeRO-3,
# saved, resumed on 4 ranks as tp 2 and dp 2, and text from it. Prints the losses, "step loss" a line, to OUT. The same
# script runs on the machine that emulates. Usage: tests/build/emulated.sh OUT
set -eu

build=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for n in 1 2 3 4; do cat docs/*.md; done >"$dir/text"
"$build/trine-tokens" --out "$dir/tokens" "$dir/text" >/dev/null
set -- "$1" --data-path "$dir/tokens_train.bin" --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
    --micro-batch-size 2 --global-batch-size 16 --lr 1e-3 --lr-warmup-iters 2 --seed 7 --save "$dir/run" --log "$dir/run.jsonl"
out=$1
shift
tools/mpirun.sh -np 8 "$build/train_gpt" "$@" --tp 2 --pp 2 --dp 2 --zero 3 --train-iters 6 >"$dir/said"
tools/mpirun.sh -np 4 "$build/train_gpt" "$@" --tp 2 --dp 2 --zero 3 --train-iters 12 --load auto >>"$dir/said"
"$build/trine-generate" "$dir/run" --prompt "The " --tokens 20 --temperature 0 >"$dir/text"
[ -s "$dir/text" ]
sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.]*\).*/\1 \2/p' "$dir/run.jsonl" >"$out"
[ "$(wc -l <"$out")" = 12 ]
