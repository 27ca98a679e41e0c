#!/bin/sh
# A file system call (fsync, rename, read) that takes longer than --timeout: the other ranks wait for the rank that
# makes it, and the run continues. Such calls have their own limit, --io-timeout.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
TRAIN=$BUILD/tests/train/slow_driver
RUN="--data-path $data --dp 2 --pp 2 --zero 1 --timeout 2"

# good: the run has succeeded and reported no wait
good() {
    [ "$status" -eq 0 ] && says 0 "timed out" && prints 1 "saved $dir/run/step-$1: "
}

# shellcheck disable=SC2086  # words are meant to be split
job 4 $RUN --save "$dir/run" --slow fsync 5
good 3
result $? "an fsync that takes longer than the timeout is waited for"

# shellcheck disable=SC2086
job 4 $RUN --save "$dir/run" --load auto --train-iters 6 --slow rename 5
good 6
result $? "a rename that takes longer than the timeout is waited for"

# shellcheck disable=SC2086
job 4 $RUN --save "$dir/run" --load auto --train-iters 9 --slow pread 5
good 9
result $? "a read of a checkpoint that takes longer than the timeout is waited for"

# shellcheck disable=SC2086
job 4 $RUN --save "$dir/run" --load auto --train-iters 12 --io-timeout 2 --slow fsync 100
ended && messages 1 && grep -q "^trine: timed out: rank . .* in fsync of .*/run/.* (io-timeout 2 s); the job aborts" "$dir/err"
result $? "an fsync that takes longer than --io-timeout aborts the job"
done_testing
