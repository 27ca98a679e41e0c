#!/bin/bash
# TEST longer=lost timeout=3600
# Two or three jobs share one folder of checkpoints and start at random intervals; some are killed, some are
# stopped until their lease has expired, and then continued. A job that prints "saved" must have saved: the files are
# compared with those of the same job alone. A job that may not save reports why, and names the other job.
# TRINE_SEED (47) seeds the times; TRINE_TRIALS is the number of trials (10; in the full tests 200).
# TRINE_TRAIN is run in place of train_gpt with short leases.
. tests/lib.sh

train=${TRINE_TRAIN:-$BUILD/tests/ckpt/lease_driver 50 8}
seed=${TRINE_SEED:-47}
trials=${TRINE_TRIALS:-$([ -n "${TRINE_FULL:-}" ] && echo 200 || echo 10)}
last=16 # steps of a run
ckpt=$dir/ckpt
token_file "$data" 20240520 1 641 641

# job FOLDER SEED ARGUMENTS...: number $job; replaces this shell
job() {
    own_session "$job"
    # shellcheck disable=SC2086  # words are meant to be split
    exec $train $SMALL --data-path "$data" --seed "$2" --train-iters $last --save "$1" --save-interval 1 \
        --log-interval 0 "${@:3}"
}

for job in 1 2 3; do
    (job "$dir/alone-$job" $job) >"$dir/out" 2>"$dir/err"
    status=$?
    [ "$status" -eq 0 ] && [ -d "$dir/alone-$job/step-$last" ]
    result $? "job $job alone"
done

# wrong TEXT: reports what is wrong
wrong() {
    echo "# trial $trial ($mode, $what): $1"
    return 1
}

# same JOB STEP: the step in the folder equals that job's
same() {
    diff -r -q -x options.txt "$ckpt/step-$2" "$dir/alone-$1/step-$2" >/dev/null 2>&1
}

# kept JOB: what the job reported as saved exists. If each job starts from scratch, every step is its own; if jobs
# resume from each other, they all write the same files, and the newest step is at least the reported one.
kept() {
    local step newest=0 path
    for path in "$ckpt"/step-*; do
        if [ -d "$path" ] && [ "${path##*-}" -gt "$newest" ]; then newest=${path##*-}; fi
    done
    for step in $(sed -n 's|^saved .*/step-\([0-9]*\): .*|\1|p' "$dir/out-$1"); do
        if [ $mode = scratch ]; then
            same "$1" "$step" || wrong "job $1 reported step-$step as saved" || return 1
        else
            [ "$newest" -ge "$step" ] || wrong "job $1 saved step-$step, the newest is $newest" || return 1
        fi
    done
}

# ended JOB: the job saved its last step, was killed by this test, or reported why it could not save
ended() {
    case ${status_of[$1]} in
        0) grep -q -e "^saved .*/step-$last: " -e "all steps are done, nothing to train or save" "$dir/out-$1" ;;
        137) [ "$what" = kill ] && [ "$1" -eq 1 ] ;;
        *) [ "$(sed "$SWEPT" "$dir/err-$1" | grep -c '^trine: ')" -eq 1 ] && grep -q -e " is in use: .*process [0-9]* on " \
            -e "process [0-9]* on .* has taken over the folder" -e "but this run starts at step 0" "$dir/err-$1" ;;
    esac || wrong "job $1 exited with ${status_of[$1]}: $(cat "$dir/err-$1")"
}

# complete: every checkpoint belongs to a job and has the right contents
complete() {
    local path
    for path in "$ckpt"/step-*; do
        [ -d "$path" ] || continue
        if [ $mode = scratch ]; then
            same 1 "${path##*-}" || same 2 "${path##*-}" || same 3 "${path##*-}"
        else
            same 1 "${path##*-}"
        fi || wrong "${path##*/} equals no job's" || return 1
    done
}

# end: a last job runs undisturbed
end() {
    [ $mode = resume ] || return 0
    (job "$ckpt" 1 --load auto --keep 2) >"$dir/out-4" 2>"$dir/err-4" || wrong "the last job failed: $(cat "$dir/err-4")" ||
        return 1
    same 1 $last || wrong "the last job has not saved step-$last"
}

# pause MS
pause() {
    sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"
}

# disturb PID: kills or stops the process some time after its start; a stopped one is continued later
disturb() {
    [ "$what" != none ] || return 0
    draw 500
    pause $((r + 250))
    if [ "$what" = kill ]; then kill -KILL "$1"; else kill -STOP "$1"; fi 2>/dev/null
    [ "$what" = stop ] || return 0
    draw 500
    (pause $((r + 700)) && kill -CONT "$1") 2>/dev/null &
}

trial() {
    local job pids=()
    rm -rf "$ckpt"
    for job in $(seq $jobs); do
        if [ $mode = scratch ]; then
            (job "$ckpt" "$job") >"$dir/out-$job" 2>"$dir/err-$job" &
        else
            (job "$ckpt" 1 --load auto --keep 2) >"$dir/out-$job" 2>"$dir/err-$job" &
        fi
        pids+=($!)
        [ "$job" -gt 1 ] || disturb $!
        draw 600
        pause "$r"
    done
    for job in $(seq $jobs); do
        wait "${pids[job - 1]}"
        status_of[job]=$?
    done 2>/dev/null # hides the shell's messages about killed jobs
    for job in $(seq $jobs); do kept "$job" && ended "$job" || return 1; done
    complete && end
}

bad=0
declare -A kinds
status_of=()
for trial in $(seq "$trials"); do
    draw 2
    mode=$([ "$r" -eq 0 ] && echo scratch || echo resume)
    draw 4
    jobs=$([ "$r" -eq 0 ] && echo 3 || echo 2)
    draw 3
    case $r in 0) what=none ;; 1) what=kill ;; 2) what=stop ;; esac
    trial || bad=$((bad + 1))
    kinds[$what/$mode]=$((${kinds[$what/$mode]:-0} + 1))
done
echo "# $trials trials, $bad bad; $(for k in "${!kinds[@]}"; do echo "$k ${kinds[$k]}"; done | sort | tr '\n' ',')"
[ $bad -eq 0 ]
result $? "$trials trials of several jobs with one folder: a job that reports a save has saved"

done_testing
