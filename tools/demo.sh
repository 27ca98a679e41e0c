#!/bin/sh
# Trains a small GPT on the King James text on 8 ranks of this machine: dp 2 x tp 2 x pp 2 with ZeRO-1. Run by
# make demo, which has built everything. Fails unless the final validation loss is below LIMIT. Then one rank
# loads the checkpoint of the eight and generates text.
# Each variable below may be set in the environment; arguments are passed to the trainer after its own.
set -eu
cd "$(dirname "$(realpath "$0")")/.."

build=${BUILD:-build}
out=${OUT:-$build/demo}
limit=${LIMIT:-2.0} # nats per byte

ranks=${RANKS:-8}
layout=${LAYOUT:---dp 2 --tp 2 --pp 2 --zero 1 --schedule 1f1b}
layers=${LAYERS:-4} hidden=${HIDDEN:-128} heads=${HEADS:-4} seq=${SEQ:-128}
micro=${MICRO:-8} global=${GLOBAL:-32}
steps=${STEPS:-900} warmup=${WARMUP:-50} lr=${LR:-3e-3} min_lr=${MIN_LR:-3e-4}
eval_interval=${EVAL_INTERVAL:-100} eval_iters=${EVAL_ITERS:-8}

prompt=${PROMPT:-And the LORD } sample=${SAMPLE:-400}

log=$out/log.jsonl
saved=$out/checkpoints
mkdir -p "$out"
rm -rf "$log" "$saved" "$out/trace.json" "$out/sample.txt"

# shellcheck disable=SC2086  # the layout is several arguments
tools/mpirun.sh -np "$ranks" "$build/train_gpt" $layout \
    --num-layers "$layers" --hidden-size "$hidden" --num-attention-heads "$heads" \
    --seq-length "$seq" --micro-batch-size "$micro" --global-batch-size "$global" \
    --train-iters "$steps" --lr "$lr" --min-lr "$min_lr" --lr-warmup-iters "$warmup" \
    --lr-decay-style cosine --weight-decay 0.1 --clip-grad 1.0 --seed 1 \
    --data-path "$build/corpus/kjv_train.bin" --val-data-path "$build/corpus/kjv_val.bin" \
    --log-interval 10 --eval-interval "$eval_interval" --eval-iters "$eval_iters" --log "$log" \
    --save "$saved" --trace "$out/trace.json" "$@"

# The validation losses of the log, one "STEP LOSS" a line.
losses() {
    sed -n 's/.*"step":[ ]*\([0-9]*\).*"val_loss":[ ]*\([^,} ]*\).*/\1 \2/p' "$log"
}

losses | awk -v limit="$limit" -v log_file="$log" '
    NR == 1 { first_step = $1; first = $2 }
    { last_step = $1; last = $2 }
    END {
        if (NR < 2) { print "demo: " log_file ": fewer than two validation losses"; exit 1 }
        printf "\nvalidation loss: %.4f nats per byte at step %d, %.4f at step %d\n", \
            first, first_step, last, last_step
        print "log: " log_file
        # A NaN compares false with everything, so the test is for "below".
        if (last + 0 != last || !(last + 0 < limit + 0)) {
            print "demo: final validation loss " last " is not below " limit
            exit 1
        }
    }'

printf '\ngenerated text (%s/trine-generate %s --prompt "%s" --tokens %s --temperature 0.8):\n\n' \
    "$build" "$saved" "$prompt" "$sample"
"$build/trine-generate" "$saved" --prompt "$prompt" --tokens "$sample" --temperature 0.8 2>"$out/said" >"$out/generated" || {
    cat "$out/said" >&2
    exit 1
}
cat "$out/generated"
# A model of bytes may write any byte; the page takes UTF-8.
iconv -c -f UTF-8 -t UTF-8 "$out/generated" >"$out/sample.txt" || true

printf '\nreport: '
set -- "$log"
[ ! -e "$out/trace.json" ] || set -- "$@" "$out/trace.json"
"$build/trine-report" "$@" --sample "$out/sample.txt" --out "$out/report.html"
