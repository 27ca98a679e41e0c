#!/bin/sh
# Failures during a run: bad data, NaN, a full disk, a rank that is killed or stopped. The job reports the failure once
# and exits on every rank, or continues if possible.
. tests/lib.sh

token_file "$data" 20240520 1 641 641 # 40 windows
cp "$data" "$dir/bad.bin"
spoil "$dir/bad.bin" 330

steps() { # steps FROM TO: the log has that many complete lines
    n=$(wc -l <"$log")
    [ "$n" -ge "$1" ] && [ "$n" -le "$2" ] && [ "$(grep -c '^{"step":.*}$' "$log")" -eq "$n" ]
}

# ---- Data

beyond="$dir/bad.bin: token 330 (byte 1684): id 200 is outside the vocabulary of 70"
job 4 --data-path "$dir/bad.bin" --vocab-size 70 --train-iters 10 --log "$log"
messages 1 && says 1 "$beyond" && ended && steps 1 9
result $? "an out-of-vocabulary token read by one of four ranks in a later step"

job 4 --data-path "$dir/bad.bin" --vocab-size 70 --tp 2 --pp 2 --train-iters 40
messages 1 && says 1 "$beyond" && ended && says 0 "    at "
result $? "an out-of-vocabulary token read by all ranks"

cp "$data" "$dir/cut.bin"
start --data-path "$dir/cut.bin" --dp 2 --tp 2
truncate -s 1100 "$dir/cut.bin"
finish
messages 1 && says 1 "$dir/cut.bin: unexpected end of file at byte 1" && says 1 "; the file was truncated while in use" && ended
result $? "a token file that is truncated while in use"

# ---- Numbers

job 2 --data-path "$data" --val-data-path "$data" --eval-iters 1 --train-iters 4 --lr 1e30 \
    --log "$log"
[ "$status" -eq 0 ] && messages 0 && prints 3 "gradient norm is not finite, update skipped" &&
    prints 3 "loss nan | grad norm nan" && prints 0 "-nan" && prints 1 "step    4/4 | loss" &&
    steps 6 6 && [ "$(grep -c '"loss":null,"grad_norm":null' "$log")" -eq 3 ] &&
    [ "$(grep -c '"val_loss":null' "$log")" -eq 1 ]
result $? "a diverging run reports skipped steps and continues; the log has null"

job 4 --data-path "$data" --val-data-path "$data" --eval-iters 1 --train-iters 9 --device ref --fp16 \
    --initial-loss-scale 2e30 --min-loss-scale 1e30 --dp 2 --pp 2 --zero 1 --global-batch-size 4 \
    --log "$log"
messages 1 && ended && steps 3 3 && prints 1 "; loss scale now 1e+30" &&
    says 1 "step 3: gradients overflow at loss scale 1e+30, the minimum (--min-loss-scale)" &&
    says 1 "; first in wte.weight (head) on rank 2 [pp1 dp0 tp0]; no step had a finite gradient norm" &&
    [ "$(grep -c '"loss_scale":2e+30,"skips":[12]}' "$log")" -eq 2 ]
result $? "gradients overflow at the minimum loss scale"

# ---- The disk

job 2 --data-path "$data" --log /dev/full --save "$dir/saved"
says 1 "trine: --log /dev/full: No space left on device; training continues, log lines are missing from step" && messages 2 &&
    says 1 "--log /dev/full: lines of this run that could not be written: 3" && [ "$status" -eq 1 ] && gone &&
    [ "$(cat "$dir/saved/latest")" = step-3 ] && prints 1 "step    3/3 | loss"
result $? "a log on a full disk: the run completes and is saved, with status 1"

job 2 --data-path "$data" --profile-json /dev/full --save "$dir/saved2"
messages 1 && says 1 "--profile-json /dev/full: No space left on device" && [ "$status" -eq 1 ] && gone &&
    [ "$(cat "$dir/saved2/latest")" = step-3 ]
result $? "a profile on a full disk: the same"

START_RANKS=2
start --profile-json /dev/full --save "$dir/saved3"
kill -USR1 "$(pid_of 1)"
finish
START_RANKS=4
says 1 "--profile-json /dev/full: No space left on device" && messages 1 && [ "$status" -eq 75 ] && gone &&
    [ -e "$dir/saved3/latest" ]
result $? "a profile on a full disk, in a run that was asked to stop: the status still requests a requeue"

# One rank fails: the other ranks must not report an error.
: >"$dir/statuses"
# shellcheck disable=SC2016,SC2086  # expanded by the ranks; words are meant to be split
run tools/mpirun.sh -np 2 /bin/sh -c \
    '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || { trap "" XFSZ; ulimit -f 65536; }; exec "$@"' sh \
    "$TRAIN" $SMALL --data-path "$data" --hidden-size 512 --save "$dir/full"
messages 1 && grep -q ", saving step 3: $dir/full/\.step-3\.[0-9a-f]*\.writing/" "$dir/err" &&
    says 1 "trine: $(uname -n) [pp0 dp1 tp0]: rank 1 on " && says 1 ": File too large" && ended &&
    [ ! -e "$dir/full/latest" ]
result $? "a checkpoint that only one rank cannot write"

mkdir "$dir/a" "$dir/b"
program=$(realpath "$TRAIN")
# shellcheck disable=SC2086  # words are meant to be split
run tools/mpirun.sh -np 1 -wdir "$dir/a" "$program" $SMALL --data-path "$data" --save mine : \
    -np 1 -wdir "$dir/b" "$program" $SMALL --data-path "$data" --save mine
messages 1 && grep -q "mine: rank 0 created mine/\.step-0\.[0-9a-f]*\.writing, but this rank cannot access it: No such file" "$dir/err" && ended &&
    prints 0 "step "
result $? "a checkpoint folder that one rank does not see is reported before the first step"

# ---- Memory

: >"$dir/statuses"
# shellcheck disable=SC2016,SC2086  # expanded by the ranks; words are meant to be split
run tools/mpirun.sh -np 2 /bin/sh -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || ulimit -v 2500000; exec "$@"' sh \
    "$TRAIN" $SMALL --data-path "$data" --hidden-size 3072
messages 1 && says 1 "[pp0 dp1 tp0]: out of memory: no memory for" && ended && prints 0 "step"
result $? "one rank has too little memory during setup"

# ---- Ranks

start --dp 2 --tp 2
victim=$(pid_of 2)
kill -KILL "$victim"
finish
[ -n "$victim" ] && ended && silent && killed && steps 3 1000000000
result $? "a killed rank aborts the job; the launcher reports it"

start --tp 2 --pp 2 --timeout 3
victim=$(pid_of 2)
kill -STOP "$victim"
finish
[ -n "$victim" ] && ended && messages 1 && reported 2 "stopped by a signal or a debugger" &&
    says 1 "rank 2 [pp1 dp0 tp0] on $(uname -n) (pid $victim): stopped" && says 1 " (timeout 3 s); the job aborts" &&
    grep -q "waiting in .* over group .*; instruction " "$dir/err"
result $? "the other ranks name a stopped rank and the operation they wait for"

done_testing
