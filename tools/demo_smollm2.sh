#!/bin/sh
# Fine-tunes SmolLM2-135M-Instruct on the King James text on 6 ranks of this machine, tp 3 x pp 2: from a text to token
# files, training, perplexity and text. Run by make demo MODEL=smollm2, which has built everything and made the text. Fails
# unless the perplexity of the validation tokens falls by FALL, a fraction of that before.
# Needs 4 GiB of memory and of disk. Each variable below may be set in the environment; arguments are passed to the
# trainer after its own.
set -eu

build=${BUILD:-build}
out=${OUT:-$build/smollm2}

ranks=${RANKS:-6}
layout=${LAYOUT:---tp 3 --pp 2}
seq=${SEQ:-128} micro=${MICRO:-1} global=${GLOBAL:-2}
steps=${STEPS:-200} warmup=${WARMUP:-10} lr=${LR:-6e-5}
fall=${FALL:-0.33}
if [ -z "${PRECISION+set}" ] && grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then PRECISION=--bf16; fi
precision=${PRECISION:-}

prompt=${PROMPT:-And the LORD} sample=${SAMPLE:-50}

model=$out/hf log=$out/log.jsonl saved=$out/checkpoints
python=$(tools/venv.sh "$build")
mkdir -p "$out"
rm -rf "$log" "$saved"

if [ ! -s "$model/tokenizer_config.json" ]; then
    echo "making $model"
    "$python" tools/demo_smollm2.py "$model"
fi

# One block of 1024 tokens in every hundred is for validation, so that it is of all books.
printf '\n%s/trine-tokens --tokenizer %s --val-fraction 0.01 --out %s/kjv %s/corpus/kjv.txt\n' "$build" "$model" "$out" "$build"
"$build/trine-tokens" --tokenizer "$model" --val-fraction 0.01 --out "$out/kjv" "$build/corpus/kjv.txt"

# generate FOLDER
generate() {
    printf '\n%s/trine-generate %s --prompt "%s" --tokens %s --temperature 0.8\n\n' "$build" "$1" "$prompt" "$sample"
    "$build/trine-generate" "$1" --prompt "$prompt" --tokens "$sample" --temperature 0.8 2>"$out/said" || {
        cat "$out/said" >&2
        exit 1
    }
}

# evaluate FOLDER RESULT: in windows as long as the training's sequences, which the checkpoint is for
evaluate() {
    printf '\n%s/trine-eval %s --data %s/kjv_val.bin --seq-length %s\n\n' "$build" "$1" "$out" "$seq"
    # shellcheck disable=SC2086  # none or one argument
    "$build/trine-eval" "$1" --data "$out/kjv_val.bin" --seq-length "$seq" $precision >"$2"
    cat "$2"
}

generate "$model"
evaluate "$model" "$out/before"

printf '\n%s/train_gpt --load %s --finetune ...\n' "$build" "$model"
# shellcheck disable=SC2086  # several arguments
tools/mpirun.sh -np "$ranks" "$build/train_gpt" --load "$model" --finetune $layout $precision \
    --seq-length "$seq" --micro-batch-size "$micro" --global-batch-size "$global" \
    --train-iters "$steps" --lr "$lr" --lr-warmup-iters "$warmup" --adam-beta2 0.99 --seed 1 \
    --data-path "$out/kjv_train.bin" --log-interval 10 --log "$log" --save "$saved" "$@"

evaluate "$saved" "$out/after"
generate "$saved"

awk -v fall="$fall" '
    $1 == "perplexity" { value[FILENAME == ARGV[1]] = $2 + 0 }
    END {
        before = value[1]; after = value[0]
        less = before > 0 && after > 0 ? 1 - after / before : 0 # a NaN is not above 0
        printf "\nperplexity of the validation tokens: %.3f, then %.3f: less by %.1f%%\n", before, after, 100 * less
        if (less < fall) {
            printf "demo: the perplexity has not fallen by %g%%\n", 100 * fall
            exit 1
        }
    }' "$out/before" "$out/after"
