#!/bin/sh
# TEST full=wait timeout=1500
# 64 ranks, dp 4 x tp 4 x pp 4 with ZeRO-3; one rank is stopped at a random instruction: the report names it
# first. TRINE_TRIALS (10), TRINE_SEED (1).
. tests/lib.sh

token_file "$data" 20240520 1 8192 8192
trials=${TRINE_TRIALS:-10}
seed=${TRINE_SEED:-1}
START_RANKS=64
TIMEOUT=5

trial=0
while [ $trial -lt "$trials" ]; do
    trial=$((trial + 1))
    draw $START_RANKS
    rank=$r
    draw 1000
    delay=$r
    start --num-layers 6 --dp 4 --tp 4 --pp 4 --zero 3 --global-batch-size 16 --timeout $TIMEOUT
    sleep "0.$(printf %03d "$delay")"
    stopped=$(pid_of "$rank")
    began=$(date +%s.%N)
    kill -STOP "$stopped"
    eventually 300 grep '^trine: timed out' "$dir/err"
    seconds=$(date +%s.%N | awk -v began="$began" '{printf "%.1f", $1 - began}')
    finish
    first=$(sed -n '/^trine: timed out/{n;p;}' "$dir/err")
    shown=$(sed -n '/^trine: timed out/,/^[^ t]/p' "$dir/err" | grep -c '^trine:\|^    ')
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && [ "$shown" -le 24 ] && reported "$rank" "stopped by a signal or a debugger, "
    result $? "rank $rank is named first, after $seconds s:${first##*:}"
done
done_testing
