#!/bin/bash
# TEST longer=lost timeout=7200
# Programs are signalled at random moments from exec to exit: the trainer alone and under mpirun (one rank, tools/mpirun.sh,
# its process group, a bare mpirun) and each tool. They must end; status and words are those of the table in
# docs/checkpoints.md ("Signals"); no file under a final name is other than complete, an end in order leaves no
# unfinished one, and what a training has reported as saved is what the next one with --load auto resumes from. Before that:
# no process of Open MPI's is beside a program without a launcher, where a signal to the group would end it.
# TRINE_SEED (47) seeds the moments; TRINE_MOMENTS is their number (17; in the full tests 1000).
. tests/lib.sh

seed=${TRINE_SEED:-47}
moments=${TRINE_MOMENTS:-$([ -n "${TRINE_FULL:-}" ] && echo 1000 || echo 18)}
limit=60 # the programs' --timeout
last=12  # steps of a training
outputs=$dir/outputs
token_file "$data" 20240520 1 641 641
mkdir "$outputs"
seq 40000 >"$dir/text.txt"
seq 400000 >"$dir/long.txt"

# train FOLDER ARGUMENTS...: the arguments of a training that saves after every step
train() {
    # shellcheck disable=SC2206  # words are meant to be split
    arguments=("$TRAIN" $SMALL --data-path "$data" --train-iters $last --save "$1" --save-interval 1 --keep 100 --load auto
        --timeout "$limit" --log "$log" "${@:2}")
}

# What runs, and who gets the signal: the first process, its process group, or a rank.
kinds=("train process" "train group" "slow process" "two rank" "two process" "two group" "four rank" "four group" "bare process"
    "bytes process" "tokens group" "generate process" "eval process" "export process" "doctor process" "tokenizer process"
    "generate2 group" "eval2 process")

# compose KIND: sets arguments, and $ckpt and $reference of a training; $signals that it may get
compose() {
    ckpt=$dir/ckpt-$1 reference=$dir/reference-$1
    local run=(tools/mpirun.sh)
    case $1 in
        train) train "$ckpt" ;;
        slow) train "$ckpt" --hidden-size 256 --global-batch-size 16 ;;
        two) train "$ckpt" --dp 2 --zero 1 && arguments=("${run[@]}" -np 2 "${arguments[@]}") ;;
        four) train "$ckpt" --dp 2 --pp 2 && arguments=("${run[@]}" -np 4 "${arguments[@]}") ;;
        bare) train "$ckpt" --dp 2 --zero 1 && arguments=("$mpirun" --oversubscribe -np 2 "${arguments[@]}") ;;
        bytes) arguments=("$BUILD/trine-tokens" --out "$outputs/b" "$dir/long.txt") ;;
        tokens) arguments=("$BUILD/trine-tokens" --tokenizer tests/tokenizer/tiny.json --out "$outputs/t" "$dir/long.txt") ;;
        tokenizer) arguments=("$BUILD/trine-tokenizer" --vocab-size 300 --out "$outputs/w" "$dir/long.txt") ;;
        generate) arguments=("$BUILD/trine-generate" "$model" --prompt A --tokens 400 --threads 1) ;;
        eval) arguments=("$BUILD/trine-eval" "$model" --text "$dir/text.txt" --max-tokens 40000 --threads 1) ;;
        export) arguments=("$BUILD/trine-export" "$model" "$outputs/model") ;;
        doctor) arguments=("$BUILD/trine-doctor" --seconds 0.01) ;;
        generate2) compose generate && arguments=("${run[@]}" -np 2 "${arguments[@]}" --tp 2) ;;
        eval2) compose eval && arguments=("${run[@]}" -np 2 "${arguments[@]}" --dp 2) ;;
    esac
}

is_training() {
    case $1 in train | slow | two | four | bare) true ;; *) false ;; esac
}

# under KIND: whether a launcher runs it
under() {
    case $1 in two | four | bare | *2) true ;; *) false ;; esac
}

# A bare Open MPI as root and without ssh needs these, which the script sets otherwise.
mpirun=${MPIRUN:-mpirun}
open_mpi=
case $("$mpirun" --version 2>&1) in
    *"Open MPI) 4"*)
        open_mpi=yes
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        command -v ssh >/dev/null || export OMPI_MCA_plm=isolated
        ;;
esac

# launch: in a process group of its own, and with the signals as a shell with job control has them
launch() {
    background setsid env --default-signal=INT,QUIT,HUP "${arguments[@]}"
}

# await: as finish, for $limit + 5 s
await() {
    local deadline=$(($(date +%s) + limit + 5))
    late=
    while ! launcher_gone; do
        [ "$(date +%s)" -le $deadline ] || { late=124 && kill -KILL -- "-$launcher"; }
        sleep 0.03
    done
    wait "$launcher"
    status=$?
    status=${late:-$status}
}

# ---- Undisturbed runs

model=$dir/reference-train/step-$last
declare -A duration # ms
declare -A status_of

# undisturbed KIND: its duration, its status and its files
undisturbed() {
    local began
    compose "$1"
    rm -f "$log"
    began=$(date +%s%N)
    launch
    await
    duration[$1]=$((($(date +%s%N) - began) / 1000000))
    status_of[$1]=$status
    if is_training "$1"; then mv "$ckpt" "$reference"; fi
    cp "$dir/out" "$dir/out-$1"
    [ "$status" -eq 0 ] || { [ "$1" = doctor ] && [ "$status" -eq 1 ]; }
}

# left_out KIND: the tables have the statuses of Open MPI 4's launcher only
left_out() {
    [ -z "$open_mpi" ] && under "$1"
}

good=0
for kind in train slow two four bare bytes tokens tokenizer generate eval export doctor generate2 eval2; do
    if left_out $kind; then
        skip "$kind: under a launcher" "not Open MPI 4"
        continue
    fi
    undisturbed $kind || good=1
    echo "# $kind: ${duration[$kind]} ms"
done
mv "$outputs" "$dir/complete"
mkdir "$outputs"
result $good "undisturbed runs"

# Open MPI 4 starts an orted beside a process without a launcher; a signal to the group ends it early, and MPI_Init fails.
mkdir "$dir/bin"
printf '#!/bin/sh\necho ran >%q\nkill -USR1 $$\n' "$dir/orted-ran" >"$dir/bin/orted"
chmod +x "$dir/bin/orted"
good=0
for kind in train bytes tokens tokenizer generate eval export doctor; do
    compose $kind
    status=0
    OPAL_BINDIR=$dir/bin "${arguments[@]}" >"$dir/out" 2>&1 || status=$?
    [ $status -eq "${status_of[$kind]}" ] && [ ! -e "$dir/orted-ran" ] || { good=1 && echo "# $kind: status $status" && break; }
done
rm -rf "$dir/ckpt-train" "${outputs:?}"
mkdir "$outputs"
result $good "a process alone starts no daemon that a signal to its group could end"

# ---- Checks

# wrong TEXT: reports what is wrong
wrong() {
    echo "# $1"
    return 1
}

# word TEXT: a line of Trine on standard error, at most one a node
word() {
    [ "$(grep -c -F -- "trine: $1" "$dir/err")" -eq 1 ]
}

# silent: the program has not said anything
silent() {
    ! sed "$SWEPT" "$dir/err" | grep -q "^trine: " && [ ! -s "$dir/out" ]
}

newest() {
    find "$ckpt" -maxdepth 1 -name 'step-*' 2>/dev/null | sed 's/.*step-//' | sort -n | tail -n 1
}

# training_is_right SIGNAL TARGET TWICE BEGAN
training_is_right() {
    local signal=$1 target=$2 twice=$3 began=$4 path said code=$((128 + $(kill -l "$1"))) n
    for path in "$ckpt"/step-*; do
        [ ! -d "$path" ] || diff -r -q "$path" "$reference/${path##*/}" >/dev/null || wrong "${path##*/} is not that of the undisturbed run" || return
    done
    n=$(newest)
    said=$(sed -n 's|^saved .*/step-\([0-9]*\): .*|\1|p' "$dir/out" | tail -n 1)
    [ "${n:-0}" -ge "${said:-0}" ] && [ "${n:-0}" -ge "${began:-0}" ] || wrong "step-$said was saved, step-$began existed, the newest is step-$n" || return
    said=$(sed -n 's|^resumed from .*/step-\([0-9]*\): .*|\1|p' "$dir/out")
    [ -z "$said" ] || [ "$said" -eq "${began:-0}" ] || wrong "resumed from step $said, not $began" || return
    case $status in
        0) [ "${n:-0}" -eq $last ] || wrong "status 0 without the last step" ;;
        75)
            case $signal in KILL | QUIT) wrong "status 75 after SIG$signal" || return ;; esac
            if grep -q "stopped at step" "$dir/out"; then
                said=$(sed -n "s|.*stopped at step \([0-9]*\) of $last, which is saved in $ckpt/step-\1; to go on, start the same command with --load auto\$|\1|p" "$dir/out")
                [ "${said:-x}" = "$n" ] || wrong "no word of step $n"
            else
                grep -q "trine: SIG[A-Z0-9]* before the first step: nothing was trained" "$dir/err" && [ "${n:-0}" -eq "${began:-0}" ] ||
                    wrong "status 75 without a word"
            fi
            ;;
        *) killed_rightly "$signal" "$target" "$twice" $code ;;
    esac
}

# killed_rightly SIGNAL TARGET TWICE CODE: a training that ended by a signal
killed_rightly() {
    local signal=$1 target=$2 twice=$3 code=$4
    if [ "$kind" = bare ] && [ "$status" -eq 1 ]; then return; fi # mpirun's own way
    case $signal/$target/$status in
        KILL/* | QUIT/*) [ "$status" -eq "$code" ] || wrong "status $status after SIG$signal" ;;
        # The launcher or a rank had not begun; others may have said that nothing was trained.
        */*/"$code") [ -n "$twice" ] || ! grep -q "^saved\|grad norm" "$dir/out" || wrong "SIG$signal lost a training that had begun" ;;
        *) wrong "status $status after SIG$signal" ;;
    esac
}

# files_are_right SIGNAL: no half file has a final name, and none is left over after an end in order
files_are_right() {
    local file name
    for file in "$outputs"/* "$outputs"/.[!.]*; do
        [ -e "$file" ] || continue
        name=${file##*/}
        case $name in
            w) # a folder: complete, or without the file that makes it a tokenizer
                if [ -e "$file/tokenizer.json" ]; then diff -r -q -x '.*' "$file" "$dir/complete/w" >/dev/null || wrong "$name is not complete" || return
                else case $1 in KILL | QUIT) ;; *) wrong "$name is left over" || return ;; esac fi ;;
            *.unfinished | *.shard | *.writing | *.trine-lock) case $1 in KILL | QUIT) ;; *) wrong "$name is left over" || return ;; esac ;;
            *) diff -r -q "$file" "$dir/complete/$name" >/dev/null || wrong "$name is not complete" || return ;;
        esac
    done
}

# has NAME...: these are complete
has() {
    local name
    for name in "$@"; do [ -e "$outputs/$name" ] || return; done
}

# done_rightly: the tool has ended as undisturbed
done_rightly() {
    case $kind in
        bytes) has b_train.bin b_val.bin ;;
        tokens) has t_train.bin t_val.bin ;;
        tokenizer) has w/tokenizer.json w/tokenizer_config.json ;;
        export) has model ;;
        doctor*) grep -q . "$dir/out" ;;
        *) cmp -s "$dir/out" "$dir/out-$kind" ;;
    esac || wrong "status $status, but not complete"
}

# tool_is_right SIGNAL TWICE
tool_is_right() {
    local signal=$1 code=$((128 + $(kill -l "$1")))
    files_are_right "$signal" || return
    if [ "$status" -eq "${status_of[$kind]}" ]; then
        done_rightly
        return
    fi
    [ "$status" -eq $code ] || wrong "status $status after SIG$signal" || return
    case $signal in KILL | QUIT) return ;; esac
    if [ -n "$2" ] && grep -q "interrupted; what was to be written is complete" "$dir/err"; then done_rightly && return; fi
    if silent; then
        [ -z "$(ls -A "$outputs")" ] || wrong "silent, but files were written"
        return
    fi
    # tools/mpirun.sh kills what it has not told yet, and so does a second signal.
    if under "$kind" && ! sed "$SWEPT" "$dir/err" | grep -q "^trine: "; then return; fi
    case $kind in
        bytes) word "SIG$signal: interrupted; no files were written" && ! has b_train.bin ;;
        tokens) word "SIG$signal: interrupted; no files were written" && ! has t_train.bin ;;
        tokenizer) word "SIG$signal: interrupted; no files were written" && ! has w ;;
        export) word "SIG$signal: interrupted; nothing was written" && ! has model ;;
        generate) word "SIG$signal: interrupted; the text ends here" ;;
        eval) word "SIG$signal: interrupted; there is no result" ;;
        doctor) word "SIG$signal: interrupted; the examination did not end" ;;
        *) word "SIG" ;;
    esac || wrong "no true word"
}

# ---- Moments

# whom TARGET: sets $receiver for kill
whom() {
    case $1 in
        process) receiver=$launcher ;;
        group) receiver=-$launcher ;;
        rank)
            draw "$(case $kind in four) echo 4 ;; *) echo 2 ;; esac)"
            receiver=
            while [ -z "$receiver" ] && ! launcher_gone; do receiver=$(pid_of "$r"); done
            ;;
    esac
}

send() {
    [ -z "$receiver" ] || kill -s "$1" -- "$receiver" 2>>"$dir/gone"
}

exec 2>>"$dir/gone" # bash names each process that a signal has ended
declare -A seen
failures=0
all=(INT TERM INT HUP USR1 TERM INT KILL QUIT)
at=0
while [ $at -lt "$moments" ]; do
    at=$((at + 1))
    draw ${#kinds[@]}
    [ "$moments" -gt 100 ] || r=$(((at - 1) % ${#kinds[@]}))
    read -r kind target <<<"${kinds[r]}"
    if left_out "$kind"; then continue; fi
    draw ${#all[@]}
    signal=${all[r]}
    draw 5
    twice=$([ "$r" -ne 0 ] || echo yes)
    draw $((duration[$kind] * 11 / 10))
    moment=$r
    draw 600
    gap=$((r + 120))
    compose "$kind"
    rm -f "$log"
    if is_training "$kind"; then began=$(newest); fi
    launch
    sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
    whom "$target"
    send "$signal"
    if [ -n "$twice" ]; then
        sleep "0.$(printf %03d $gap)"
        send "$signal"
    fi
    await
    good=0
    [ "$status" -ne 124 ] || wrong "it does not end" || good=1
    # The ranks of a launcher that was killed end after it.
    gone || wrong "processes are left: $(pgrep -a -f "$dir" | head -n 3 | cut -c -120)" || good=1
    if is_training "$kind"; then
        training_is_right "$signal" "$target" "$twice" "$began" || good=1
    else
        tool_is_right "$signal" "$twice" || good=1
    fi
    seen["$kind $target SIG$signal: $status"]=$((${seen["$kind $target SIG$signal: $status"]:-0} + 1))
    if [ $good -ne 0 ]; then
        failures=$((failures + 1))
        result 1 "moment $at: SIG$signal${twice:+ twice, $gap ms apart,} to $kind ($target) after $moment of ${duration[$kind]} ms"
    fi
    [ -z "${TRINE_FULL:-}" ] || [ $((at % 50)) -ne 0 ] || echo "# $at moments, $failures failures"
    if is_training "$kind" && [ "$status" -eq 0 ]; then rm -rf "$ckpt"; fi
    rm -rf "${outputs:?}"
    mkdir "$outputs"
done
for key in "${!seen[@]}"; do echo "# $key ${seen[$key]} times"; done | sort
[ $failures -eq 0 ]
result $? "$moments moments: an end, the right status and words, nothing half, nothing lost"
done_testing
