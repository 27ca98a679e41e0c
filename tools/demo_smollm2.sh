#!/bin/sh
# Fine-tunes SmolLM2-135M-Instruct on the King James text on 6 ranks of this machine: tp 3 x pp 2. Run by make demo
# MODEL=smollm2, which has built everything and made the text. Fails unless the perplexity of the validation tokens
# falls by FALL, a fraction of that before the first step. Generates text before and after.
# Needs 4 GiB of memory and of disk. Each variable below may be set in the environment; arguments are passed to the
# trainer after its own.
set -eu

build=${BUILD:-build}
out=${OUT:-$build/smollm2}

ranks=${RANKS:-6}
layout=${LAYOUT:---tp 3 --pp 2}
seq=${SEQ:-128} micro=${MICRO:-1} global=${GLOBAL:-2}
steps=${STEPS:-200} warmup=${WARMUP:-10} lr=${LR:-6e-5}
eval_iters=${EVAL_ITERS:-40} fall=${FALL:-0.33}
if [ -z "${PRECISION+set}" ] && grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then PRECISION=--bf16; fi
precision=${PRECISION:-}

prompt=${PROMPT:-And the LORD} sample=${SAMPLE:-50}

model=$out/hf log=$out/log.jsonl saved=$out/checkpoints
python=$(tools/venv.sh "$build")
mkdir -p "$out"
rm -rf "$log" "$saved"

if [ ! -s "$out/kjv_val.bin" ]; then
    echo "making $model and its tokens of $build/corpus/kjv.txt"
    "$python" tools/demo_smollm2.py prepare "$model" "$build/corpus/kjv.txt" "$out/kjv"
fi

# generate FOLDER
generate() {
    printf '\ngenerated text (%s/trine-generate %s --ids "%s" --tokens %s --temperature 0.8):\n\n' \
        "$build" "$1" "$ids" "$sample"
    "$build/trine-generate" "$1" --ids "$ids" --tokens "$sample" --temperature 0.8 >"$out/ids" 2>"$out/said" || {
        cat "$out/said" >&2
        exit 1
    }
    "$python" tools/demo_smollm2.py decode "$model" "$(cat "$out/ids")"
}

ids=$("$python" tools/demo_smollm2.py encode "$model" "$prompt")
generate "$model"
echo

# shellcheck disable=SC2086  # several arguments
tools/mpirun.sh -np "$ranks" "$build/train_gpt" --load "$model" --finetune $layout $precision \
    --seq-length "$seq" --micro-batch-size "$micro" --global-batch-size "$global" \
    --train-iters "$steps" --lr "$lr" --lr-warmup-iters "$warmup" --adam-beta2 0.99 --seed 1 \
    --data-path "$out/kjv_train.bin" --val-data-path "$out/kjv_val.bin" \
    --log-interval 10 --eval-iters "$eval_iters" --log "$log" --save "$saved" "$@"

sed -n 's/.*"step":[ ]*\([0-9]*\).*"val_loss":[ ]*\([^,} ]*\).*/\1 \2/p' "$log" | awk -v fall="$fall" -v log_file="$log" '
    NR == 1 { first_step = $1; first = $2 }
    { last_step = $1; last = $2 }
    END {
        if (NR < 2) { print "demo: " log_file ": fewer than two validation losses"; exit 1 }
        printf "\nvalidation loss: %.4f nats per token at step %d, %.4f at step %d: less by %.1f%%, perplexity by %.1f%%\n", \
            first, first_step, last, last_step, 100 * (1 - last / first), 100 * (1 - exp(last - first))
        print "log: " log_file
        # A NaN compares false with everything, so the test is for "below".
        if (last + 0 != last || !(exp(last - first) < 1 - fall)) {
            printf "demo: the perplexity has not fallen by %g%%\n", 100 * fall
            exit 1
        }
    }'

generate "$saved"
