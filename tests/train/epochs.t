#!/bin/sh
# --epochs: the steps follow from the token files, as the banner counts epochs; a blend, which has no one answer; with
# --train-iters as well; what a checkpoint records, and how a run goes on; a rate that falls to the last step.
. tests/lib.sh

# 640 windows of 16 tokens
token_file "$data" 20240520 1 10241 10241
token_file "$dir/half.bin" 20240520 1 5121 5121
SMALL="--num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256 --threads 1
       --global-batch-size 64 --log-interval 5"

# has STEPS EPOCHS: the banner's numbers, and the run's
has() {
    [ "$status" -eq 0 ] && messages 0 && prints 1 " tokens, $2 epochs in $1 steps" && prints 1 " $1/$1 | loss"
}

# refuses NAME TEXT: one message
refuses() {
    [ "$status" -eq 1 ] && messages 1 && says 1 "$2"
    result $? "$1"
}

job 0 --data-path "$data" --epochs 2 --log "$log" --save "$dir/run"
has 20 2.00
result $? "whole steps that are two epochs"
sed -n '$s/.*"lr":\([^,]*\),.*/\1/p' "$log" | grep -qx '0\|0\.0*'
result $? "the rate has fallen to 0 at the last step"
grep -qx -e '--train-iters 20' "$dir/run/step-20/options.txt" && ! grep -q epochs "$dir/run/step-20/options.txt" &&
    ! grep -q epochs "$dir/run/step-20/manifest.json"
result $? "a checkpoint has the steps"

job 0 --data-path "$data" --epochs 2 --save "$dir/run" --load auto
[ "$status" -eq 0 ] && prints 1 "--train-iters 20: all steps are done" && prints 0 "in the checkpoint, "
result $? "the same epochs: nothing is left to do"
job 0 --data-path "$data" --epochs 2.5 --save "$dir/run" --load auto
has 25 2.50 && prints 1 "  train-iters: 20 in the checkpoint, 25 now"
result $? "more epochs: the run goes on"
job 0 "@$dir/run/step-20/options.txt" --epochs 0.51 --save "$dir/again"
has 6 0.60
result $? "in place of the steps in the options of a checkpoint"

for each in "0.1 1 0.10" "0.3 3 0.30" "0.7 7 0.70" "1e-9 1 0.10"; do
    # shellcheck disable=SC2086  # words are meant to be split
    set -- $each
    job 0 --data-path "$data" --epochs "$1"
    has "$2" "$3"
    result $? "$1 epochs are $2 steps"
done
job 2 --data-path "$data" --epochs 0.31 --dp 2 --micro-batch-size 2 --lr-decay-style wsd --lr-wsd-decay-iters 4
has 4 0.40
result $? "two ranks, and a decay of as many steps"

job 0 --data-path "$data" --epochs 0.3 --lr-decay-style wsd --lr-wsd-decay-iters 4
refuses "a decay longer than the run" "--lr-wsd-decay-iters 4: together with --lr-warmup-iters 0 it exceeds the 3 steps"
job 0 --data-path "$data" --epochs 0.3 --trace "$dir/t.json" --trace-steps 2-4
refuses "steps to trace that the run does not have" "--trace-steps 2-4: --train-iters is 3"
job 0 --data-path "$data" --epochs 2 --train-iters 100
refuses "both options" "--epochs 2: --train-iters 100 is given as well; leave one of them out"
job 0 --data-path "$data" --epochs 1e9
refuses "too many steps" "--epochs 1e+09: 10000000000 steps of 64 samples, but a run has at most 2147483647"
job 0 --data-path "$data" --epochs=-1
refuses "a negative number" '--epochs: invalid value "-1"'
job 0 --data-path 1 "$data" 1 "$dir/half.bin" --epochs 1
refuses "a blend with one source read more often" \
    "--epochs 1: each source of a blend has its own number of steps: 20 steps of 1 $data, 10 steps of 1 $dir/half.bin; set --train-iters"
job 0 --data-path 2 "$data" 1 "$dir/half.bin" --epochs 1
[ "$status" -eq 0 ] && prints 2 " tokens, 1.00 epochs in 15 steps"
result $? "a blend by size: an epoch of each source"

cat >"$dir/differ" <<'END'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && set -- "$@" --epochs 3
exec "$@"
END
chmod +x "$dir/differ"
# shellcheck disable=SC2086
run_ranks 2 "$dir/differ" "$TRAIN" $SMALL --data-path "$data" --dp 2 --epochs 2
says 1 "  --epochs" && says 1 "    2: rank 0 on" && says 1 "    3: rank 1 on" && ended
result $? "ranks with different epochs"

plan() {
    # shellcheck disable=SC2086
    run "$TRAIN" $SMALL "$@"
}
plan --dry-run --data-path "$data" --epochs 2
[ "$status" -eq 0 ] && prints 1 "steps    20 for --epochs 2 of $data"
result $? "--dry-run has the steps"
plan --dry-run --epochs 2
[ "$status" -eq 0 ] && prints 1 "steps    unknown: --epochs 2, without token files that can be opened"
result $? "--dry-run without the file"
plan --explain --data-path "$data" --epochs 2
[ "$status" -eq 0 ] && prints 1 "bubble by formula"
result $? "--explain"
job 2 --data-path "$data" --epochs 0.3 --plan auto --hardware zen5-cores
has 3 0.30
result $? "--plan auto"
done_testing
