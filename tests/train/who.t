#!/bin/sh
# TEST full=wait timeout=1500
# 64 ranks, dp 4 x tp 4 x pp 4 under ZeRO-3, of which one is stopped at any instruction: the report names it
# first. TRINE_TRIALS (10), TRINE_SEED (1).
. tests/train/lib.sh

token_file "$data" 20240520 1 8192 8192
trials=${TRINE_TRIALS:-10}
seed=${TRINE_SEED:-1}
START_RANKS=64
TIMEOUT=5

draw() { # draw N: leaves a number from 0 to N - 1 in $drawn
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

echo "1..$trials"
trial=0
while [ $trial -lt "$trials" ]; do
    trial=$((trial + 1))
    draw $START_RANKS
    rank=$drawn
    draw 1000
    delay=$drawn
    start --num-layers 6 --dp 4 --tp 4 --pp 4 --zero 3 --global-batch-size 16 --timeout $TIMEOUT
    sleep "0.$(printf %03d "$delay")"
    stopped=$(pid_of "$rank")
    began=$(date +%s.%N)
    kill -STOP "$stopped"
    tries=0
    until grep -q '^trine: timed out' "$dir/err"; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || break
        sleep 0.05
    done
    seconds=$(date +%s.%N | awk -v began="$began" '{printf "%.1f", $1 - began}')
    finish
    first=$(sed -n '/^trine: timed out/{n;p;}' "$dir/err")
    shown=$(sed -n '/^trine: timed out/,/^[^ t]/p' "$dir/err" | grep -c '^trine:\|^    ')
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && says 1 "trine: timed out" && [ "$shown" -le 24 ] &&
        case $first in "    rank $rank "*": stopped by a signal or a debugger, "*) true ;; *) false ;; esac
    result $? "rank $rank, named after $seconds s:${first##*:}"
done
exit $failed
