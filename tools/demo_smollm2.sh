#!/bin/sh
# Fine-tunes SmolLM2-135M-Instruct on conversations about Trine, examples/conversations.jsonl, on 2 ranks of this machine,
# dp 2 with ZeRO-2: from rows to samples with masks, training, loss of the held-out rows and answers before and after. Run
# by make demo MODEL=smollm2, which has built everything. Fails unless the loss of the held-out rows falls by FALL, a
# fraction of that before. Needs 5 GiB of memory and of disk. Each variable below may be set in the environment; arguments
# are passed to the trainer after its own.
set -eu
cd "$(dirname "$(realpath "$0")")/.."

build=${BUILD:-build}
out=${OUT:-$build/smollm2}

ranks=${RANKS:-2}
layout=${LAYOUT:---dp 2 --zero 2}
rows=${ROWS:-examples/conversations.jsonl}
seq=${SEQ:-512} micro=${MICRO:-1} global=${GLOBAL:-2}
steps=${STEPS:-88} warmup=${WARMUP:-8} lr=${LR:-5e-4}
fall=${FALL:-0.25}
if [ -z "${PRECISION+set}" ] && grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then PRECISION=--bf16; fi
precision=${PRECISION:-}

# In words that no row has (tests/docs/conversations.t).
ask() {
    cat <<'END'
What is --zero 2 good for?
My training ended with status 75. What does that mean?
Can I resume my run with fewer ranks?
END
}

model=$out/hf data=$out/conversations log=$out/log.jsonl saved=$out/checkpoints
python=$(tools/venv.sh "$build")
mkdir -p "$out"
rm -rf "$log" "$saved"

if [ ! -s "$model/tokenizer_config.json" ]; then
    echo "making $model"
    "$python" tools/demo_smollm2.py "$model"
fi

say() {
    printf '\n%s\n\n' "$*"
}

encode="$build/trine-tokens --tokenizer $model --chat --seq-length $seq"
say "$encode --show 1 $rows"
$encode --show 1 "$rows"
say "$encode --out $data $rows"
$encode --out "$data" "$rows"

# answer FOLDER NAME: the answers to all questions, a file NAME.N each
answer() {
    say "$build/trine-generate $1 --chat --prompt QUESTION --tokens 80 --temperature 0"
    n=0
    ask | while read -r question; do
        n=$((n + 1))
        # shellcheck disable=SC2086  # none or one argument
        "$build/trine-generate" "$1" --chat --prompt "$question" --tokens 80 --temperature 0 $precision \
            >"$out/$2.$n" 2>"$out/said" </dev/null || {
            cat "$out/said" >&2
            exit 1
        }
        echo "$n. $question"
    done
}

# evaluate FOLDER RESULT: the held-out rows
evaluate() {
    say "$build/trine-eval $1 --data ${data}_val.bin --seq-length $seq"
    # shellcheck disable=SC2086  # none or one argument
    "$build/trine-eval" "$1" --data "${data}_val.bin" --seq-length "$seq" $precision >"$2"
    cat "$2"
}

answer "$model" before
evaluate "$model" "$out/before"

say "$build/train_gpt --load $model --finetune $layout ..."
# shellcheck disable=SC2086  # several arguments
tools/mpirun.sh -np "$ranks" "$build/train_gpt" --load "$model" --finetune $layout $precision \
    --seq-length "$seq" --micro-batch-size "$micro" --global-batch-size "$global" \
    --train-iters "$steps" --lr "$lr" --lr-warmup-iters "$warmup" --adam-beta2 0.99 --seed 1 \
    --data-path "${data}_train.bin" --log-interval 4 --log "$log" --save "$saved" "$@"

evaluate "$saved" "$out/after"
answer "$saved" after

# Both answers in two columns.
n=0
ask | while read -r question; do
    n=$((n + 1))
    say "$question"
    for name in before after; do
        { printf '%s:\n' "$name" && cat "$out/$name.$n" && echo; } | fold -s -w 54 >"$out/$name.column"
    done
    paste -d '\t' "$out/before.column" "$out/after.column" |
        awk -F '\t' '{ line = sprintf("    %-56s%s", $1, $2); sub(/ +$/, "", line); print line }'
done

awk -v fall="$fall" '
    /^nats a token/ { value[FILENAME == ARGV[1]] = $NF + 0 }
    END {
        before = value[1]; after = value[0]
        less = before > 0 && after > 0 ? 1 - after / before : 0 # a NaN is not above 0
        printf "\nloss of the held-out rows, nats a supervised token: %.3f, then %.3f: less by %.1f%%\n", \
            before, after, 100 * less
        if (less < fall) {
            printf "demo: the loss has not fallen by %g%%\n", 100 * fall
            exit 1
        }
    }' "$out/before" "$out/after"
