#!/bin/sh
# The last line of a run that dies says how to go on: after an error, a wait that was too long, a rank that is gone. Not
# without a checkpoint, and not after a refusal before the first step.
. tests/lib.sh
needs pgrep

token_file "$data" 20240520 1 641 641 # 40 windows
cp "$data" "$dir/bad.bin"
spoil "$dir/bad.bin" 330 # in step 11 of two samples each
failing="--data-path $dir/bad.bin --no-shuffle --dp 2 --vocab-size 70 --train-iters 20 --save-interval 4"

# last TEXT: the last line of Trine's is this one, once; the launcher's own follow
last() {
    says 1 "to go on from step " && says 1 "    $1" &&
        [ "$(grep -n "^trine\|^    [t ]" "$dir/err" | tail -n 1 | cut -d: -f2-)" = "    $1" ] && prints 0 "to go on from"
}

# shellcheck disable=SC2086  # words are meant to be split
dies() { # dies OPTIONS...
    job 2 $failing "$@"
    messages 1 && says 1 "token 330 " && ended
}

dies --save "$dir/run" && last "to go on from step 8: start the same command with --load auto"
result $? "an error: the newest checkpoint"
dies --save "$dir/run" --load auto && prints 1 "resumed from $dir/run/step-8" &&
    last "to go on from step 8: start the same command again"
result $? "a command that loads the newest already"
dies --save "$dir/other" --load "$dir/run/step-8" --save-interval 1 &&
    last "to go on from step 10: start the same command with --load auto in place of --load"
result $? "a command that loads another one"
dies --save "$dir/tuned" --load "$dir/run" --finetune && last \
    "to go on from step 8: start the same command with --load auto in place of --load, --load-weights-only (--finetune)"
result $? "a fine-tuning"
dies --save "$dir/none" --save-interval 0 && says 0 "to go on"
result $? "no checkpoint yet"
dies --save-interval 0 && says 0 "to go on"
result $? "no --save"

# shellcheck disable=SC2086
job 2 $failing --save "$dir/run" --load auto --log "$dir/no/folder"
messages 1 && ended && prints 1 "resumed from " && says 0 "to go on"
result $? "a refusal before the first step"
# shellcheck disable=SC2086
job 2 $failing --data-path "$data" --save "$dir/well" --train-iters 5
[ "$status" -eq 0 ] && messages 0 && says 0 "to go on"
result $? "a run that ends well"

saved="--save $dir/start --save-interval 1 --keep 2"
way='to go on from step [0-9]*: start the same command with --load auto$'
# shellcheck disable=SC2086
start --tp 2 --pp 2 --timeout 3 $saved
kill -STOP "$(pid_of 2)"
finish
ended && reported 2 "stopped by a signal or a debugger" && [ "$(grep -c "^    $way" "$dir/err")" -eq 1 ]
result $? "a wait that was too long"

# As in tests/trace/trace.t: Open MPI 5 may leave the other ranks no time, MPICH leaves none.
case $("${MPIRUN:-mpirun}" --version) in
    *HYDRA*)
        skip "a rank that is killed: another says it" "MPICH's mpirun ends the other ranks at once"
        skip "also without a record of the last steps" "MPICH's mpirun ends the other ranks at once"
        done_testing
        ;;
esac
export OMPI_MCA_odls_base_sigkill_timeout=3
losses=5
lost() {
    rm -rf "$dir/start"
    # shellcheck disable=SC2086
    start --tp 2 --pp 2 $saved "$@"
    kill -KILL "$(pid_of 1)"
    finish
    ended && says 1 "trine: rank 1 [pp0 dp0 tp1] on " && says 1 " has ended" && [ "$(grep -c "^    $way" "$dir/err")" -eq 1 ]
}
until lost; do losses=$((losses - 1)) && [ $losses -gt 0 ] || break; done
[ $losses -gt 0 ]
result $? "a rank that is killed: another says it"
until lost --no-ring; do losses=$((losses - 1)) && [ $losses -gt 0 ] || break; done
[ $losses -gt 0 ]
result $? "also without a record of the last steps"
done_testing
