#!/bin/bash
# TEST full=train timeout=1500
#
# A step with adapters of rank 16 on a frozen base takes at most 0.75 of full fine-tuning's, the two alternately: half of
# Llama 3.2 1B in bf16, 512 tokens. Products take two thirds, and attention, norms and the head are there in both.
. tests/lib.sh
needs perl

LIMIT=1400 run "$BUILD/bench/settings" --only lora-bf16 --model llama3.2-1b --num-layers 8 --seq-length 512 \
    --micro-batch-size 1 --reps 9 --json "$dir/figures.json"
result $status "the benchmark runs"
if grep -h '^  skipped: ' "$dir/out" >"$dir/why"; then
    skip "a step's time" "$(head -n 1 "$dir/why")"
else
    ratio=$(perl -MJSON::PP -e 'local $/; my $f = decode_json(<>)->{tables}{settings}[0];
        printf "%.3f, flops %.3f", $f->{slower}, $f->{flops}; exit !($f->{slower} <= 0.75)' "$dir/figures.json")
    result $? "a step takes $ratio of full fine-tuning's"
fi
done_testing
