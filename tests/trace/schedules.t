#!/bin/bash
# TEST full=train timeout=900
#
# Traces of eight ranks over five schedules: as many instructions as the programs have, each once; the spans of a rank add
# up to its step; an arrow for each message, which ends after it starts.
# shellcheck disable=SC2016,SC2086  # expressions are Perl's; words are meant to be split
set -uo pipefail
. tests/lib.sh
needs awk perl
LIMIT=600

"$BUILD/trine-tokens" --out "$dir/text" include/trine.h >/dev/null
data=$dir/text_train.bin

# programs ARGUMENTS...: the sum of all stages' instructions
programs() {
    "$TRAIN" $SMALL "$@" --explain | sed -n 's/^stage .* instructions: \([0-9]*\)$/\1/p' | awk '{ n += $1 } END { print n }'
}

for schedule in 1f1b "interleaved --num-virtual-stages-per-pipeline-rank 2" zb zbv \
    "bfs --num-virtual-stages-per-pipeline-rank 2"; do
    layout="--num-layers 8 --pp 4 --dp 2 --zero 1 --global-batch-size 16 --schedule $schedule"
    instructions=$(programs $layout)
    export instructions
    job 8 $layout --train-iters 4 --data-path "$data" --trace "$dir/t.json" --trace-steps 2-3
    [ "$status" -eq 0 ] && messages 0 && perl tests/trace/events.pl "$dir/t.json" '
        my $all = () = spans("instruction");
        why("$all instructions of $ENV{instructions} in two steps of two replicas");
        $all == 4 * $ENV{instructions} && complete() == 16 && apart() && arrows($other{clock_error_ns} / 500)'
    result $? "$schedule"
done
done_testing
