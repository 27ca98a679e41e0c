#!/bin/bash
# What a build for all processors costs: a step of train_gpt built with MARCH=any over one built with MARCH=native, in
# fp32 and bf16. Usage: bench/levels.sh BUILD [PAIRS]
# Two layers of GPT-2's shape, 512 tokens, one rank with one thread. A run's time is that of its fastest step; PAIRS (15)
# pairs of runs alternate, and the quartiles of their ratios are printed. Both are built in BUILD/levels.
set -euo pipefail

build=$1 pairs=${2:-15}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for march in any native; do
    ${MAKE:-make} -s -j"$(nproc)" CUDA=0 BUILD="$build/levels/$march" MARCH=$march "$build/levels/$march/train_gpt" \
        "$build/levels/$march/trine-tokens"
done
seq 200000 >"$dir/text.txt"
"$build/levels/native/trine-tokens" --out "$dir/text" "$dir/text.txt" >/dev/null

# seconds MARCH OPTIONS...: of the fastest step
seconds() {
    rm -f "$dir/log"
    "$build/levels/$1/train_gpt" --threads 1 --num-layers 2 --hidden-size 768 --num-attention-heads 12 --seq-length 512 \
        --vocab-size 50257 --micro-batch-size 1 --global-batch-size 1 --data-path "$dir/text_train.bin" --train-iters 6 \
        --eval-interval 0 --val-data-path none --log "$dir/log" "${@:2}" >"$dir/said" 2>&1 || { cat "$dir/said" >&2; exit 1; }
    sed -n 's/.*"seconds":\([0-9.e-]*\).*/\1/p' "$dir/log" | sort -g | head -n 1
}

# row NAME OPTIONS...
row() {
    for ((n = 0; n < pairs; n++)); do
        any=$(seconds any "${@:2}")
        native=$(seconds native "${@:2}")
        awk -v any="$any" -v native="$native" 'BEGIN { print any / native }'
    done | sort -g >"$dir/ratios"
    awk -v name="$1" '{ r[NR] = $1 } END {
        printf "%s: MARCH=any takes %.2f, %.2f, %.2f of the time of MARCH=native\n",
            name, r[int((NR + 3) / 4)], r[int((NR + 1) / 2)], r[int((3 * NR + 3) / 4)] }' "$dir/ratios"
}

row fp32
if grep -qw avx512_bf16 /proc/cpuinfo; then row bf16 --bf16; else echo "bf16: skipped, this processor lacks avx512_bf16"; fi
