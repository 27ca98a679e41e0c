#!/bin/bash
# TEST longer=lost timeout=3600
# A training on four ranks saves after every step, keeps two checkpoints, resumes with --load auto and is
# interrupted repeatedly: one rank or all ranks are killed, or one is stopped, at a random call of a save, a rename
# or a cleanup, or at a random time; then the disk is full, the folder read-only, a bit flipped, a file truncated
# or missing, a manifest truncated. After each, the checkpoints must be complete and include what was reported
# as saved, and the next run must resume from the newest one in equal bits: its losses, norms and checkpoints
# are compared with those of an undisturbed run.
# TRINE_SEED (47) seeds the interruptions; TRINE_MOMENTS is their number (5; in the full tests 200).
. tests/lib.sh

own_mounts /mnt "$@" # for a small disk
DRIVER=$BUILD/tests/ckpt/crash_driver
seed=${TRINE_SEED:-47}
moments=${TRINE_MOMENTS:-$([ -n "${TRINE_FULL:-}" ] && echo 200 || echo 5)}
last=12 # the run's steps
limit=60 # seconds that a rank may wait; shorter if a rank will be stopped
ckpt=$dir/ckpt
token_file "$data" 20240520 1 641 641
mkdir "$dir/tokenizer"
perl tests/ckpt/tokenizer.pl 300 e >"$dir/tokenizer/tokenizer.json"
echo '{"eos_token_id": 299}' >"$dir/tokenizer/generation_config.json"
own="--vocab-size 300 --tokenizer $dir/tokenizer"
layouts=("--dp 2 --tp 2 --zero 1" "--dp 2 --pp 2 --zero 3" "--tp 4 --hidden-dropout 0.1" "--dp 4 --zero 2")

# train SAVE RANK CALL N HOW ARGUMENTS...: in the background
train() {
    rm -f "$log"
    # shellcheck disable=SC2086  # words are meant to be split
    background tools/mpirun.sh -np 4 "$DRIVER" "${@:1:5}" $SMALL $own --data-path "$data" --log "$log" \
        $layout --train-iters $last --save "$1" --save-interval 1 --timeout $limit "${@:6}"
}

# undisturbed: the reference run of this layout, in $reference
undisturbed() {
    reference=$dir/reference-$1
    layout=${layouts[$1]}
    [ -e "$reference.log" ] && return
    train "$reference" -1 any 1 kill
    finish
    [ "$status" -eq 0 ] && figures >"$reference.log" && [ "$(wc -l <"$reference.log")" -eq $last ]
}

# figures: step, loss and norm of every complete line of the log
figures() {
    sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),"grad_norm":\([^,]*\),.*}$/\1 \2 \3/p' "$log" 2>/dev/null
}

# newest: the step of the newest checkpoint, 0 for none
newest() {
    local n=0 path
    for path in "$ckpt"/step-*; do
        if [ -d "$path" ] && [ "${path##*-}" -gt $n ]; then n=${path##*-}; fi
    done
    echo $n
}

# same STEP: the checkpoint is that of the undisturbed run, byte for byte
same() {
    diff -r -q -x options.txt "$ckpt/step-$1" "$reference/step-$1" >/dev/null
}

# wrong TEXT: reports what is wrong
wrong() {
    echo "# $1"
    return 1
}

# intact BEGAN: checks all guarantees after a run that found BEGAN as the newest complete step, however it exited
intact() {
    local step path said
    for path in "$ckpt"/step-*; do
        [ -d "$path" ] || continue
        same "${path##*-}" || wrong "${path##*/} differs from the undisturbed run" || return 1
    done
    said=$(sed -n 's|^saved .*/step-\([0-9]*\): .*|\1|p' "$dir/out" | tail -n 1)
    step=$(newest)
    [ "$step" -ge "${said:-0}" ] || wrong "step-$said was saved, the newest is step-$step" || return 1
    [ "$step" -ge "$1" ] || wrong "step-$1 existed, the newest is step-$step" || return 1
    figures | grep -v -x -F -f "$reference.log" | sed 's/^/# different bits: /' | grep . && return 1
    # A run that completed a step resumed from the right checkpoint.
    said=$(sed -n 's|^resumed from .*/step-\([0-9]*\): .*|\1|p' "$dir/out")
    [ -z "$(figures)" ] || [ "${said:-0}" -eq "$1" ] || wrong "resumed from step ${said:-0}, not $1"
}

# to_the_end BEGINS: a run resumes from step BEGINS in $ckpt and finishes with the same result
to_the_end() {
    train "$ckpt" -1 any 1 kill --load auto
    finish
    [ "$status" -eq 0 ] && prints 1 "resumed from $ckpt/step-$1: " && [ "$(newest)" -eq $last ] &&
        same $last && [ -z "$(figures | grep -v -x -F -f "$reference.log")" ]
}

# ---- Killed

# The call, its maximum number in two saves, and the number of ranks that make it (0: only rank 0).
calls=("mkdir 2 0" "unlink 6 0" "rmdir 2 0" "rename 6 0" "fsync 16 0" "fsync 4 4" "fallocate 4 0"
    "write 2 0" "pwrite 60 0" "pwrite 300 4" "any 100 4" "time 0 4" "time 0 4")

# choose: sets $call $count $rank $how, and $wait (ms) for kills by time
choose() {
    local most who
    draw ${#calls[@]}
    read -r call most who <<<"${calls[r]}"
    draw "$((most > 0 ? most : 1))"
    count=$((r + 1))
    draw "$((who > 0 ? who : 1))"
    rank=$r
    draw $((moments > 20 ? 12 : 11)) # a stop takes long; it has a case of its own below
    how=kill
    [ "$r" -ge 4 ] || how=all
    [ "$r" -ne 11 ] || how=stop
    limit=$([ $how = stop ] && echo 5 || echo 60)
    draw 900
    wait=$((r + 300))
}

# strike: makes a run with the chosen interruption
strike() {
    local pid
    if [ "$call" != time ]; then
        train "$ckpt" "$rank" "$call" "$count" "$how" --keep 2 --load auto
        finish
        return
    fi
    train "$ckpt" -1 any 1 kill --keep 2 --load auto
    sleep "$((wait / 1000)).$(printf %03d $((wait % 1000)))"
    for pid in $(if [ "$how" = all ]; then ranks_below '[0-9]*'; else pid_of "$rank"; fi); do
        tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "$dir" || continue
        if [ "$how" = stop ]; then kill -STOP "$pid"; else kill -KILL "$pid"; fi
    done
    finish
}

# A run that finishes does not count as an interruption; the next one starts from scratch. If it saved anything,
# the files of the runs before it must be gone.
afresh() {
    local left
    left=$(ls -A "$ckpt" | tr '\n' ' ')
    rm -rf "$ckpt"
    [ "$began" -eq $last ] || [[ "$left" =~ ^\.lease-[0-9]+\ latest\ step-11\ step-12\ $ ]] || wrong "left over: $left" || return 1
    draw "$([ "$moments" -gt 20 ] && echo ${#layouts[@]} || echo 1)"
    undisturbed "$r"
}

undisturbed 0
result $? "an undisturbed run"
done=0
lost=0
attempts=0
declare -A kinds
while [ $done -lt "$moments" ] && [ $attempts -lt $((3 * moments + 20)) ]; do
    attempts=$((attempts + 1))
    began=$(newest)
    choose
    strike
    [ -z "${TRINE_FULL:-}" ] || [ $((attempts % 10)) -ne 0 ] || echo "# $attempts runs, $done interruptions, $lost losses"
    intact "$began" || { lost=$((lost + 1)) && result 1 "interruption $done: $call $count of rank $rank, $how"; }
    if [ "$status" -eq 0 ]; then
        afresh || { lost=$((lost + 1)) && result 1 "run $attempts: $call $count of rank $rank, $how"; }
    elif [ "$call" = time ] || says 1 "crash_driver: $how before"; then
        done=$((done + 1))
        kinds[$call/$how]=$((${kinds[$call/$how]:-0} + 1))
    else
        result 1 "run $attempts failed by itself: $call $count of rank $rank, $how"
        break
    fi
done
echo "# $done interruptions, $lost losses; $(for k in "${!kinds[@]}"; do echo "$k ${kinds[$k]}"; done | sort | tr '\n' ',')"
[ $lost -eq 0 ] && [ $done -eq "$moments" ]
result $? "$moments interruptions, nothing lost"

limit=5
rm -rf "$ckpt"
cp -r "$reference" "$ckpt"
rm -rf "$ckpt"/step-1[12]
train "$ckpt" 3 fsync 2 stop --load auto
finish
[ "$status" -ne 0 ] && reported 3 "stopped by a signal or a debugger" && intact 10 && to_the_end 10
result $? "a rank that stops during a save is named, and nothing is lost"
limit=60

# ---- Damaged

flip() { # flip FILE BYTE: its lowest bit
    local byte
    byte=$(od -A n -t u1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059  # the format is the point
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# damaged: makes four checkpoints, of which the caller damages the three newest; passed STEP WHY: STEP was reported as
# skipped
damaged() {
    rm -rf "$ckpt"
    mkdir "$ckpt"
    cp -r "$reference"/step-9 "$reference"/step-1[012] "$ckpt"
}
passed() {
    prints 1 "skipped $ckpt/step-$1: $2"
}

damaged
size=$(stat -c %s "$reference/step-10/optimizer.safetensors")
draw $((size - 20000))
flip "$ckpt/step-10/optimizer.safetensors" $((r + 20000))
truncate -s $((size - 5)) "$ckpt/step-11/optimizer.safetensors"
truncate -s -20 "$ckpt/step-12/manifest.json"
to_the_end 9 && passed 10 "optimizer.safetensors: checksum mismatch in bytes" &&
    passed 11 "optimizer.safetensors has $((size - 5)) bytes instead of $size" &&
    passed 12 "manifest.json: " && same 10 && same 11
result $? "a flipped bit, a truncated file, a truncated manifest: reported, skipped and saved again"

damaged
flip "$ckpt/step-10/tokenizer.json" 100
truncate -s 0 "$ckpt/step-11/generation_config.json"
rm "$ckpt/step-12/tokenizer.json"
to_the_end 9 && passed 10 "tokenizer.json: checksum mismatch in bytes" &&
    passed 11 "generation_config.json has 0 bytes instead of 22" && passed 12 "tokenizer.json is missing" && same 10 && same 11
result $? "a damaged and a missing tokenizer: reported, skipped and saved again"

damaged
flip "$ckpt/step-10/model.safetensors" 100
rm "$ckpt/step-11/model.safetensors" "$ckpt/step-12/manifest.json"
to_the_end 9 && passed 10 "model.safetensors: checksum mismatch in bytes" && passed 11 "model.safetensors is missing" &&
    passed 12 "manifest.json is missing" && same 10 && same 11
result $? "a flipped bit in a header, a missing file, a missing manifest: reported, skipped and saved again"

# A step that is saved again replaces a broken one: the job is killed just before and just after that. Only in the
# full tests: tests/ckpt/folder.c exits a process at each of these calls.
if [ -n "${TRINE_FULL:-}" ]; then
    for at in "renameat2 1" "rmdir 2"; do # the first rmdir is a probe at the start
        damaged
        flip "$ckpt/step-10/model.safetensors" 100
        rm -rf "$ckpt"/step-1[12]
        # shellcheck disable=SC2086  # words are meant to be split
        train "$ckpt" 0 $at kill --load auto
        finish
        [ "$status" -ne 0 ] && says 1 "crash_driver: kill before ${at% *} of /.step-10." && same 9 &&
            to_the_end "$([ "$at" = "rmdir 2" ] && echo 10 || echo 9)" && same 10
        result $? "a broken step is saved again by a job that is killed: $at"
    done
fi

# ---- No space, no permission

if [ "$place" = own ]; then
    rm -rf "$ckpt"
    mkdir "$ckpt"
    each=$(du -s -k "$reference/step-10" | cut -f 1)
    mount -t tmpfs -o size=$((4 * each + 1200))k tmpfs "$ckpt"
    train "$ckpt" -1 any 1 kill
    finish
    [ "$status" -ne 0 ] && messages 8 && says 8 "not enough space for a checkpoint: it needs " && prints 7 " is NOT SAVED" &&
        prints 1 "step 5 is NOT SAVED (see standard error): training continues, older checkpoints are kept, next save at step 6" &&
        says 1 "saving step 5: " && says 8 "; newest checkpoint in $ckpt: step-4" && intact 0
    result $? "a full disk is reported at each save, older checkpoints stay, and the last save fails the run"
    mount -o remount,size=64m "$ckpt"
    to_the_end 4
    result $? "with more space the run continues"

    # Space becomes available during the run: a later save succeeds.
    rm -rf "$ckpt"/* "$ckpt"/.[a-z]*
    mount -o remount,size=$((4 * each + 1200))k "$ckpt"
    # shellcheck disable=SC2086  # words are meant to be split
    background tools/mpirun.sh -np 4 "$TRAIN" $SMALL $own --data-path "$data" ${layouts[0]} --train-iters 3000 --save "$ckpt" \
        --save-interval 100 --log-interval 0
    eventually 300 grep "is NOT SAVED" "$dir/out"
    mount -o remount,size=64m "$ckpt"
    finish
    [ "$status" -eq 0 ] && prints 1 "step 500 is NOT SAVED" && says 1 "saving step 500: " &&
        prints 1 "saved $ckpt/step-3000: " && [ "$(cat "$ckpt/latest")" = step-3000 ] && [ -e "$ckpt/step-400" ] &&
        [ ! -e "$ckpt/step-500" ]
    result $? "a disk that has space again before the run finishes"
    rm -rf "$ckpt"/* "$ckpt"/.[a-z]*
    cp -r "$reference"/* "$ckpt"

    rm -rf "$ckpt"/step-1[012]
    mount -o remount,ro "$ckpt"
    train "$ckpt" -1 any 1 kill --load auto
    finish
    [ "$status" -ne 0 ] && messages 1 && says 1 "Read-only file system" && prints 0 "step   10/" && intact 9
    result $? "a read-only folder is reported before the first step"
    mount -o remount,rw "$ckpt"
    to_the_end 9
    result $? "once the folder is writable, the run continues"
    umount "$ckpt"
else
    for name in "a full disk" "with more space" "a disk that has space again" "a read-only folder" "once the folder is writable"; do
        skip "$name" "no mount namespace is permitted here"
    done
fi

done_testing
