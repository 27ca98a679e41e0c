#!/bin/bash
# What trine-verify costs: CPU seconds of a step of train_gpt, and of one under trine-verify beside its reference, on one
# rank with one thread. Usage: bench/verify.sh BUILD [REPS]
# Each is the median of REPS (3) differences between a longer run and one of one step, so that starting is left out.
set -eu

build=$1 reps=${2:-3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
seq 200000 >"$dir/text.txt"
"$build/trine-tokens" --out "$dir/text" "$dir/text.txt" >/dev/null

# seconds COMMAND...: user and system
seconds() {
    TIMEFORMAT='%U %S'
    { time "$@" >"$dir/said" 2>&1; } 2>"$dir/time" || { cat "$dir/said" >&2; exit 1; }
    awk '{ print $1 + $2 }' "$dir/time"
}

train() {
    "$build/train_gpt" "${shape[@]}" --train-iters "$1" --eval-interval 0 --val-data-path none
}

verify() {
    "$build/trine-verify" --steps "$1" -- "${shape[@]}"
}

# row NAME STEPS OPTIONS...
row() {
    shape=(--threads 1 --micro-batch-size 4 --global-batch-size 4 --data-path "$dir/text_train.bin" "${@:3}")
    for what in train verify; do
        for ((n = 0; n < reps; n++)); do
            few=$(seconds $what 1)
            more=$(seconds $what "$2")
            awk -v few="$few" -v more="$more" -v steps="$2" 'BEGIN { print (more - few) / (steps - 1) }'
        done | sort -g | sed -n "$(((reps + 1) / 2))p" >"$dir/$what"
    done
    printf '%-40s train_gpt %6.3f s a step   trine-verify %6.3f s\n' "$1" "$(cat "$dir/train")" "$(cat "$dir/verify")"
}

row "8 layers of 128, 4 x 32 tokens" 21 --num-layers 8 --hidden-size 128 --num-attention-heads 8 --seq-length 32
row "2 layers of GPT-2's shape, 4 x 256" 3 --num-layers 2 --hidden-size 768 --num-attention-heads 12 --seq-length 256 \
    --vocab-size 50257
