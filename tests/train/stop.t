#!/bin/sh
# A run that is asked to stop by a signal to any rank or to mpirun, or by its time limit: every rank stops after the
# same step, which is saved, and the job exits with status 75. Resumed, it reaches the same losses and files as an
# undisturbed run, in one log.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
steps=200
RUN="--data-path $data --val-data-path $data --eval-iters 1 --eval-interval 50 --train-iters $steps --num-layers 3
     --hidden-size 64 --global-batch-size 16 --hidden-dropout 0.1 --attention-dropout 0.1 --dp 2 --pp 2 --zero 1"

# plain LOG: without times
plain() {
    sed 's/"seconds":[^,]*,"tokens_per_second":[^,]*,//; s/,"\(resident_bytes\|checkpoint\)":[^,}]*//g; s/,"run":{.*}}$/}/' "$1"
}

# same: $dir/part and the log equal those of the undisturbed run
same() {
    for file in config.json manifest.json model.safetensors optimizer.safetensors; do
        cmp "$dir/undisturbed/step-$steps/$file" "$dir/part/step-$steps/$file" >>"$dir/out" || return 1
    done
    plain "$dir/undisturbed.log" >"$dir/a"
    plain "$log" >"$dir/b"
    cmp "$dir/a" "$dir/b" >>"$dir/out"
}

# told TEXT: the job has exited with status 75 because of TEXT, and saved; $at is the step.
told() {
    at=$(sed -n "s/^.*$1: stopping after step \([0-9]*\)\$/\1/p" "$dir/out")
    [ "$status" -eq 75 ] && [ -n "$at" ] && [ "$at" -lt "$steps" ] && gone &&
        [ "$(cat "$dir/part/latest")" = "step-$at" ] && [ -f "$dir/part/step-$at/manifest.json" ]
}

# again ARGUMENTS...: resumes from the newest checkpoint and trains to the end
again() {
    # shellcheck disable=SC2086  # words are meant to be split
    job 4 $RUN --save "$dir/part" --log "$log" --load auto "$@"
    [ "$status" -eq 0 ] && prints 1 "resumed from $dir/part/step-$at: $at steps, "
}

# shellcheck disable=SC2086  # words are meant to be split
job 4 $RUN --save "$dir/undisturbed" --log "$dir/undisturbed.log"
[ "$status" -eq 0 ] && [ "$(cat "$dir/undisturbed/latest")" = "step-$steps" ] &&
    [ "$(ls "$dir/undisturbed")" = "latest
step-$steps" ]
result $? "an undisturbed run saves its last step and exits with status 0"

# disturb SIGNAL WHOM COMMAND...: resumes from the newest checkpoint and, after some more steps, signals a rank or the
# command. If the run completes before the signal, it is repeated.
at=0
disturb() {
    signal=$1 whom=$2
    shift 2
    for _ in 1 2 3 4 5; do
        rm -rf "$dir/part/step-$steps"
        # shellcheck disable=SC2086  # words are meant to be split
        background "$@" $RUN --save "$dir/part" --load auto --log "$log" --log-interval 0
        eventually 300 lines $((at + at / 50 + 4))
        if [ "$whom" = all ]; then pid=$launcher; else pid=$(pid_of "$whom"); fi
        kill -s "$signal" "$pid"
        finish
        [ "$status" -eq 0 ] || break
    done
}

# shellcheck disable=SC2086  # words are meant to be split
disturb USR1 3 tools/mpirun.sh -np 4 "$TRAIN" $SMALL
told "SIGUSR1 to rank 3"
result $? "SIGUSR1 to one rank: all ranks stop after the same step, saved, status 75"

echo '{"step":9999,"loss":1}' >>"$log" # of a run that continued and was then lost
printf '{"step":1' >>"$log"
# shellcheck disable=SC2086  # words are meant to be split
disturb TERM 0 tools/mpirun.sh -np 4 "$TRAIN" $SMALL
told "SIGTERM to rank 0"
result $? "resumed; SIGTERM to rank 0"

# As under Slurm: the script gets the signal and forwards it to mpirun, which forwards it to every rank.
mkdir "$dir/bin"
printf '#!/bin/sh\n[ "$1" != requeue ] || echo "$@" >>%s/requeued\n' "$dir" >"$dir/bin/scontrol"
chmod +x "$dir/bin/scontrol"
slurm() {
    PATH=$dir/bin:$PATH SLURM_JOB_ID=17 SLURM_TASKS_PER_NODE="2(x2)" SLURM_CPUS_PER_TASK=1 TRAIN="$TRAIN $SMALL" \
        LAUNCH="env -u SLURM_JOB_ID -u SLURM_TASKS_PER_NODE tools/mpirun.sh" \
        exec examples/train_gpt.sbatch "$@"
}
disturb USR1 all slurm
told "SIGUSR1 to rank [0-3]" && [ "$(cat "$dir/requeued")" = "requeue 17" ]
result $? "resumed by the Slurm script; after SIGUSR1 the script queues itself again"
(slurm $RUN --save "$dir/part" --log "$log") >"$dir/out" 2>"$dir/err"
status=$?
[ "$status" -eq 0 ] && same && [ "$(cat "$dir/requeued")" = "requeue 17" ] &&
    [ "$(find "$dir/part" -name 'step-*' | wc -l)" -eq 3 ]
result $? "resumed to the end: equal bits, one log, the newest three checkpoints are kept"

# A limit so short that each run makes one step.
rm -rf "$dir/part" "$log"
for run in 1 2 3; do
    # shellcheck disable=SC2086  # words are meant to be split
    job 4 $RUN --save "$dir/part" --log "$log" --load auto --max-minutes 0.0001
    told "--max-minutes 0.0001 elapsed" && [ "$at" -eq "$run" ] || break
done
[ "$at" = 3 ]
result $? "a run reaches its time limit again and again"
again --max-minutes 100 && same
result $? "resumed with enough time: equal bits, one log"

# A run that is asked to stop in its last step is complete.
job 1 --data-path "$data" --val-data-path none --train-iters 1 --save "$dir/one" --max-minutes 0.0001
[ "$status" -eq 0 ] && grep -q 'elapsed: stopping after step 1$' "$dir/out" && [ -e "$dir/one/step-1" ]
result $? "the time limit is reached in the last step: saved, status 0"

# ---- During a validation. With so many batches, it never completes by itself.

endless="--eval-iters 2000000000"

# ended_in STEP TEXT: status 75, because of TEXT in the validation of STEP, which is saved
ended_in() {
    [ "$status" -eq 75 ] && prints 1 "$2: stopping in the validation of step $1" && gone &&
        [ "$(cat "$dir/part/latest")" = "step-$1" ] && [ -f "$dir/part/step-$1/manifest.json" ]
}

# In the validation before the first step, or in that of a step that has been saved.
validates() {
    if [ "$1" -eq 0 ]; then
        grep -q "^transport" "$dir/out"
    else
        grep -q "^saved $dir/part/step-$1: " "$dir/out"
    fi
}

# validating STEP SIGNAL RANK ARGUMENTS...: sends the signal in the validation of that step.
# Repeated if the rank has not begun yet, while rank 0 prints the banner.
validating() {
    want=$1 signal=$2 whom=$3
    shift 3
    for _ in 1 2 3 4 5; do
        # shellcheck disable=SC2086  # words are meant to be split
        background tools/mpirun.sh -np 4 "$TRAIN" $SMALL $RUN --save "$dir/part" --load auto --log "$log" $endless "$@"
        eventually 300 validates "$want"
        kill -s "$signal" "$(pid_of "$whom")"
        finish
        grep -q "before the first step" "$dir/err" || break
    done
}

rm -rf "$dir/part"
: >"$log"
validating 0 USR1 2
ended_in 0 "SIGUSR1 to rank 2"
result $? "SIGUSR1 during the validation of step 0: step 0 is saved, status 75"

# shellcheck disable=SC2086  # words are meant to be split
job 4 $RUN --save "$dir/part" --log "$log" --load auto $endless --max-minutes 0.0001
ended_in 0 "--max-minutes 0.0001 elapsed"
result $? "the time limit is reached during the validation of step 0, which is repeated"

# shellcheck disable=SC2086  # words are meant to be split
job 4 $RUN --save "$dir/part" --log "$log" --load auto --max-minutes 0.0001
at=0
told "--max-minutes 0.0001 elapsed" && [ "$at" -eq 1 ] &&
    [ "$(sed 's/,"\(loss\|val_loss\)".*//' "$log" | tr '\n' ' ')" = '{"step":0 {"step":1 ' ]
result $? "the next run completes the validation and a step"

validating 50 TERM 0 --save-interval 25
ended_in 50 "SIGTERM to rank 0" && prints 1 "saved $dir/part/step-50: "
result $? "SIGTERM during the validation of a step that is already saved: it is not saved twice"

at=50
again && same && [ "$(grep -c val_loss "$log")" -eq 5 ]
result $? "the resumed run repeats the validation: equal bits, each validation once in one log"

# Killed between the last save and the result of the last validation; then resumed once more with nothing to do.
sed -i '$d' "$log"
at=$steps
again && prints 1 "all steps are done, nothing to train or save" && prints 1 "validation loss" && same
result $? "a run with no steps left repeats the last validation"
again && prints 0 "validation loss" && same
result $? "the last validation is not repeated a second time"

# Each step takes seconds: the second signal arrives during the first step.
# shellcheck disable=SC2086  # words are meant to be split
background "$TRAIN" $SMALL --data-path "$data" --save "$dir/never" --num-layers 8 --hidden-size 256 \
    --global-batch-size 4096
eventually 300 grep -q "^transport\|^memory" "$dir/out"
sleep 1
kill -s TERM $launcher
sleep 0.5
kill -s TERM $launcher
finish
[ "$status" -eq 143 ] && ! [ -e "$dir/never/latest" ] && says 1 "trine: SIGTERM again: the run ends at once, without a save"
result $? "a second SIGTERM terminates the process immediately"

# A lease without beats may be another job's: the run waits, and has nothing to save yet.
mkdir "$dir/held"
: >"$dir/held/.lease-3"
# shellcheck disable=SC2086
background tools/mpirun.sh -np 2 "$TRAIN" $SMALL --data-path "$data" --dp 2 --save "$dir/held"
eventually 300 prints 1 "$dir/held is held by an unknown job"
kill -s TERM "$(pid_of 1)"
finish
[ "$status" -eq 75 ] && gone && [ "$(ls -A "$dir/held")" = .lease-3 ] &&
    says 1 "SIGTERM before the first step: nothing was trained, and nothing is saved; earlier checkpoints are unchanged"
result $? "SIGTERM to one rank ends the wait for another job's lease"

# With AVX2 the stack pointer is on the heap during a matmul (docs/checkpoints.md), on any
# processor: under constant signals from its second step on a run saves the same bytes as without.
DNNL_MAX_CPU_ISA=AVX2
export DNNL_MAX_CPU_ISA
alone() { # alone FOLDER INTERVAL
    # shellcheck disable=SC2086  # words are meant to be split
    exec "$TRAIN" $SMALL --data-path "$data" --hidden-size 256 --global-batch-size 64 --train-iters 8 \
        --save "$dir/$1" --save-interval "$2" --log "$dir/$1.log" --log-interval 0
}
(alone quiet 1) >"$dir/out" 2>"$dir/err"
background alone flood 8
eventually 300 [ -s "$dir/flood.log" ]
sent=0
while ! [ -e "$dir/flood/latest" ] && [ $sent -lt 1000000 ] && kill -s USR1 $launcher 2>>"$dir/err"; do
    sent=$((sent + 1))
done
finish
echo "$sent signals" >>"$dir/out"
unset DNNL_MAX_CPU_ISA
at=$(cat "$dir/flood/latest")
cmp "$dir/quiet/$at/model.safetensors" "$dir/flood/$at/model.safetensors" >>"$dir/out" &&
    [ "$status" -eq 75 ] && [ $sent -gt 100 ]
result $? "thousands of signals during matmuls change no byte"

# shellcheck disable=SC2086  # words are meant to be split
start $RUN
kill -s TERM "$(pid_of 1)"
finish
[ "$status" -ne 0 ] && [ "$status" -ne 75 ] && [ "$status" -ne 124 ] && gone
result $? "without --save a signal terminates the job"

# Whether or not a rank can be notified to stop, the report names the operation that it waits for.
start --tp 2 --pp 2 --timeout 3 --save "$dir/stopped"
victim=$(pid_of 2)
kill -STOP "$victim"
finish
sed -n '/^    .*waiting/p' "$dir/err" >"$dir/a"
[ -n "$victim" ] && ended && messages 1 && reported 2 "stopped by a signal or a debugger" && [ -s "$dir/a" ] &&
    ! grep -qv 'waiting in .*; \(instruction\|checking for a stop request\)' "$dir/a" && ! grep -q "not communicating" "$dir/err"
result $? "a stopped rank in a run with --save: the other ranks report what they wait for"

done_testing
