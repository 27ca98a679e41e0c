#!/bin/bash
# TEST longer=lost timeout=3600
# Two jobs, and three, with one folder for their checkpoints, begun at random distances; some are killed,
# some are stopped for longer than their lease lives, and go on. Whoever says "saved" has saved: the files
# are compared with those of the same job alone. Who may not save says why, and names the other.
# Moments come from TRINE_SEED (47); there are TRINE_TRIALS of them (10; in the full tests 200).
# TRINE_TRAIN is run in place of train_gpt with short leases.
. tests/lib.sh

train=${TRINE_TRAIN:-$BUILD/tests/ckpt/lease_driver 50 8}
seed=${TRINE_SEED:-47}
trials=${TRINE_TRIALS:-$([ -n "${TRINE_FULL:-}" ] && echo 200 || echo 10)}
last=16 # steps of a run
ckpt=$dir/ckpt
token_file "$data" 20240520 1 641 641

# job FOLDER SEED ARGUMENTS...: replaces this shell
job() {
    # shellcheck disable=SC2086  # words are meant to be split
    exec $train $SMALL --data-path "$data" --seed "$2" --train-iters $last --save "$1" --save-interval 1 \
        --log-interval 0 "${@:3}"
}

for job in 1 2 3; do
    (job "$dir/whole-$job" $job) >"$dir/out" 2>"$dir/err"
    status=$?
    [ "$status" -eq 0 ] && [ -d "$dir/whole-$job/step-$last" ]
    result $? "job $job alone"
done

# wrong TEXT: says what is wrong
wrong() {
    echo "# trial $trial ($mode, $what): $1"
    return 1
}

# same JOB STEP: the step in the folder is that job's
same() {
    diff -r -q "$ckpt/step-$2" "$dir/whole-$1/step-$2" >/dev/null 2>&1
}

# kept JOB: what it said to have saved. Of several that go on from each other, which all make the same
# files, the newest is not older; where each begins anew, every step is there and is its own.
kept() {
    local step newest=0 path
    for path in "$ckpt"/step-*; do
        if [ -d "$path" ] && [ "${path##*-}" -gt "$newest" ]; then newest=${path##*-}; fi
    done
    for step in $(sed -n 's|^saved .*/step-\([0-9]*\): .*|\1|p' "$dir/out-$1"); do
        if [ $mode = anew ]; then
            same "$1" "$step" || wrong "job $1 said that it saved step-$step" || return 1
        else
            [ "$newest" -ge "$step" ] || wrong "job $1 saved step-$step, the newest is $newest" || return 1
        fi
    done
}

# ended JOB: with its last step saved, killed by us, or with a word why
ended() {
    case ${status_of[$1]} in
        0) grep -q -e "^saved .*/step-$last: " -e "no step is left" "$dir/out-$1" ;;
        137) [ "$what" = kill ] && [ "$1" -eq 1 ] ;;
        *) [ "$(grep -c '^trine: ' "$dir/err-$1")" -eq 1 ] && grep -q -e " is in use: .*process [0-9]* on " \
            -e "process [0-9]* on .* has taken the folder over" -e "and this run begins at step 0" "$dir/err-$1" ;;
    esac || wrong "job $1 ended with ${status_of[$1]}: $(cat "$dir/err-$1")"
}

# whole: all that is there belongs to somebody, and is what it should be
whole() {
    local path
    for path in "$ckpt"/step-*; do
        [ -d "$path" ] || continue
        if [ $mode = anew ]; then
            same 1 "${path##*-}" || same 2 "${path##*-}" || same 3 "${path##*-}"
        else
            same 1 "${path##*-}"
        fi || wrong "${path##*/} is nobody's" || return 1
    done
}

# end: the last word is that of a job which nobody disturbs
end() {
    [ $mode = on ] || return 0
    (job "$ckpt" 1 --load auto --keep 2) >"$dir/out-4" 2>"$dir/err-4" || wrong "the last job failed: $(cat "$dir/err-4")" ||
        return 1
    same 1 $last || wrong "the last job has not saved step-$last"
}

# pause MS
pause() {
    sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"
}

# disturb PID: kills or stops it some time after its beginning; one that is stopped goes on in the end
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
        if [ $mode = anew ]; then
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
    done 2>/dev/null # who was killed needs no mention
    for job in $(seq $jobs); do kept "$job" && ended "$job" || return 1; done
    whole && end
}

bad=0
declare -A kinds
status_of=()
for trial in $(seq "$trials"); do
    draw 2
    mode=$([ "$r" -eq 0 ] && echo anew || echo on)
    draw 4
    jobs=$([ "$r" -eq 0 ] && echo 3 || echo 2)
    draw 3
    case $r in 0) what=none ;; 1) what=kill ;; 2) what=stop ;; esac
    trial || bad=$((bad + 1))
    kinds[$what/$mode]=$((${kinds[$what/$mode]:-0} + 1))
done
echo "# $trials trials, $bad bad; $(for k in "${!kinds[@]}"; do echo "$k ${kinds[$k]}"; done | sort | tr '\n' ',')"
[ $bad -eq 0 ]
result $? "$trials times several jobs with one folder: who says saved has saved"

done_testing
