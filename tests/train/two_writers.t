#!/bin/bash
# TEST longer=lost timeout=3600
# Two programs of ours write to one target, started at a random distance; in a fifth of the trials one of them is
# killed. What is there afterwards is what one of them writes alone, as a whole: all its files, and no others. A program
# that exits with 0 wrote it, or was followed by the other, which did; one that was refused says so once, with the
# target's name. After a kill training files may be without their validation files, and what is unfinished is gone when
# the next program has written there.
# TRINE_SEED (61) seeds the times; TRINE_TRIALS is the number of pairs (12; in the full tests 200).
. tests/lib.sh

root=$PWD
tokens=$(realpath "$BUILD")/trine-tokens
export_tool=$(realpath "$BUILD")/trine-export
train=$(realpath "$BUILD")/train_gpt
tiny=$PWD/tests/tokenizer/tiny.json
seed=${TRINE_SEED:-61}
trials=${TRINE_TRIALS:-$([ -n "${TRINE_FULL:-}" ] && echo 200 || echo 12)}
kinds=(bytes fraction tokenizer shards mixed schedule export log save profile resume)
last=12 # steps of a run
token_file "$data" 20240520 1 641 641

# Several megabytes, which differ in their size and everywhere.
yes "A is first; " | head -c 6000000 >"$dir/a.txt"
yes "B, the second; " | head -c 5000001 >"$dir/b.txt"
head -c 600000 "$dir/a.txt" >"$dir/short-a.txt"
head -c 500000 "$dir/b.txt" >"$dir/short-b.txt"

# small_run SEED ARGUMENTS...
small_run() {
    # shellcheck disable=SC2086  # words are meant to be split
    exec "$train" $SMALL --data-path "$data" --seed "$1" --train-iters $last --log-interval 0 "${@:2}"
}

# program KIND WHO: WHO is a or b; the target is "out" in the current folder. Replaces this shell.
program() {
    local who=$2 number=1
    own_session "$who"
    [ "$who" = a ] || number=2
    case $1 in
        bytes) exec "$tokens" --out out "$dir/$who.txt" ;;
        fraction) exec "$tokens" --out out --val-fraction $([ "$who" = a ] && echo 0 || echo 0.2) "$dir/$who.txt" ;;
        tokenizer) exec "$tokens" --tokenizer "$tiny" --out out "$dir/short-$who.txt" ;;
        shards) exec "$tokens" --tokenizer "$tiny" --shard-tokens $((number * 20000)) --out out "$dir/short-$who.txt" ;;
        mixed) if [ "$who" = a ]; then program bytes a; else program shards b; fi ;;
        schedule) exec "$train" $SMALL --num-layers 8 --pp 4 --global-batch-size $((200 * number)) --explain layers \
            --export-schedule out ;;
        export) exec "$export_tool" "$dir/run-$who" out ;;
        log) small_run $number --train-iters 200 --log out ;;
        save) small_run $number --save out --save-interval 4 ;;
        profile) small_run 1 --train-iters $((last + number)) --profile-json out ;;
        # the second is the first one's restart
        resume) small_run 1 --log out --save "$dir/saved-$who" --load auto ;;
    esac
}

# contents KIND: what is in the current folder, without times and leases
contents() {
    find . -type f ! -path '*/.lease-*' | sort
    case $1 in
        log | resume) [ ! -e out ] || numbers out ;;
        profile) [ ! -e out ] || perl -MJSON::PP -ne '$j = decode_json($_); print "steps $j->{first_step} to $j->{last_step}\n"' out ;;
        *) find . -type f ! -path '*/.lease-*' ! -name latest -exec md5sum {} + | sort ;;
    esac 2>&1
}

# without_val: the same without validation files, as a list of contents shows them
without_val() {
    grep -v '_val' "$1"
}

# fresh WHO: what a run needs that is not the target
fresh() {
    rm -rf "$dir/saved-$1"
    [ ! -d "$dir/begun" ] || cp -r "$dir/begun" "$dir/saved-$1"
}

declare -A spans counts both failures status_of
for who in a b; do
    mkdir "$dir/run-$who" && cd "$dir/run-$who" && (small_run $([ $who = a ] && echo 3 || echo 4) --save . --hidden-size 128) \
        >"$dir/out" 2>"$dir/err" || break
done
status=$?
(small_run 1 --save "$dir/begun" --train-iters 4) >>"$dir/out" 2>>"$dir/err" || status=1
for kind in "${kinds[@]}"; do
    for who in a b; do
        fresh $who
        began=$(date +%s%N)
        mkdir -p "$dir/alone/$kind-$who" && cd "$dir/alone/$kind-$who" && (program "$kind" $who) >"$dir/out" 2>"$dir/err" &&
            contents "$kind" >"$dir/alone/$kind-$who.txt" || status=1
        spans[$kind]=$((($(date +%s%N) - began) / 1000000 + 1)) # in which the other one starts
    done
done
[ $status -eq 0 ]
result $? "each program alone"

# A log that another program has: all ranks end, and the file is as it was. util-linux's flock is essential.
precious "$log"
exec 8>>"$log"
flock -n 8
cd "$root" && job 2 --data-path "$data" --log "$log"
[ "$status" -ne 0 ] && messages 1 && says 1 "--log $log: " && says 1 " is writing to this file; wait until it exits, or name another file" &&
    ended && untouched "$log"
result $? "a log of another program is refused on all ranks"
exec 8>&-
job 2 --data-path "$data" --log "$log" && [ "$status" -eq 0 ] && [ "$(wc -l <"$log")" -eq 3 ]
result $? "once that program has ended, it is written"

# wrong TEXT: reports what is wrong
wrong() {
    echo "# trial $trial ($kind, $what): $1; statuses ${status_of[a]} ${status_of[b]}; $(cat "$dir/err-a" "$dir/err-b" | head -n 3 | tr '\n' ' ')"
    return 1
}

# refused WHO: it was killed by this test, or says once that it did not write, and where
refused() {
    [ "${status_of[$1]}" -ne 137 ] || [ "$what" = kill ] || wrong "$1 was killed" || return 1
    [ "${status_of[$1]}" -ne 137 ] || return 0
    [ "$(sed "$SWEPT" "$dir/err-$1" | grep -c '^trine: ')" -eq 1 ] && grep -q '^trine: .*\bout' "$dir/err-$1" || wrong "$1 does not say why"
}

# is WHO: the folder has what that program writes alone
is() {
    cmp -s "$dir/contents" "$dir/alone/$kind-$1.txt"
}

# judge: what two programs left
judge() {
    local one
    contents "$kind" >"$dir/contents"
    for one in a b; do [ "${status_of[$one]}" -eq 0 ] || refused $one || return 1; done
    if [ "${status_of[a]}" -eq 0 ] && [ "${status_of[b]}" -eq 0 ]; then
        is a || is b || wrong "neither one's: $(diff "$dir/contents" "$dir/alone/$kind-a.txt" | head -n 5)"
    elif [ "${status_of[a]}" -eq 0 ] && [ $what != kill ]; then
        is a || wrong "not what a wrote"
    elif [ "${status_of[b]}" -eq 0 ] && [ $what != kill ]; then
        is b || wrong "not what b wrote"
    elif [ $what != kill ]; then
        wrong "both were refused"
    else
        whole
    fi
}

# whole: after a kill, what has a final name belongs to one program, and is complete. Of logs and checkpoints each step is.
whole() {
    case $kind in
        log | resume | save) return 0 ;; # the next program reads them
    esac
    grep -v '/\.' "$dir/contents" >"$dir/visible"
    [ -s "$dir/visible" ] || return 0
    for one in a b; do
        for form in cat without_val; do
            ! $form "$dir/alone/$kind-$one.txt" | cmp -s - "$dir/visible" || return 0
        done
    done
    wrong "parts of $(head -n 3 "$dir/visible")"
}

# next: another program writes there after a kill, and what it leaves is all
next() {
    local target=out
    case $kind in
        export) rm -rf out out.*.writing ;; # only reported, and a complete one is not replaced
        shards | mixed) rm -f out_*.bin ;;
        fraction) rm -f out_val.bin ;;
        save) rm -rf out ;;
    esac
    fresh a
    (program "$kind" a) >"$dir/out-a" 2>"$dir/err-a"
    status_of[a]=$?
    contents "$kind" >"$dir/contents"
    [ "${status_of[a]}" -eq 0 ] && is a || wrong "the next one failed: $(diff "$dir/contents" "$dir/alone/$kind-a.txt" | head -n 5)"
}

# pause MS
pause() {
    sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"
}

trial() {
    local one first=a second=b pids=() pid
    rm -rf "$dir/trial" && mkdir "$dir/trial" && cd "$dir/trial" || return 1
    fresh a
    fresh b
    draw 2
    [ "$r" -eq 0 ] || { first=b && second=a; }
    (program "$kind" $first) >"$dir/out-$first" 2>"$dir/err-$first" &
    pids[0]=$!
    draw "$span"
    pause "$r"
    (program "$kind" $second) >"$dir/out-$second" 2>"$dir/err-$second" &
    pids[1]=$!
    draw "$span"
    if [ $what = kill ]; then
        pause "$r"
        draw 2
        kill -KILL "${pids[$r]}" 2>/dev/null
    fi
    wait "${pids[0]}" 2>/dev/null
    status_of[$first]=$?
    wait "${pids[1]}" 2>/dev/null
    status_of[$second]=$?
    both[$kind]=$((${both[$kind]:-0} + (status_of[a] + status_of[b] == 0)))
    judge || return 1
    [ $what != kill ] || next
}

bad=0
for trial in $(seq "$trials"); do
    kind=${kinds[$(((trial - 1) % ${#kinds[@]}))]}
    draw 5
    what=$([ "$r" -eq 0 ] && echo kill || echo run)
    span=${spans[$kind]}
    counts[$kind]=$((${counts[$kind]:-0} + 1))
    trial || { bad=$((bad + 1)) && failures[$kind]=$((${failures[$kind]:-0} + 1)); }
done 2>/dev/null # hides the shell's messages about killed jobs
for kind in "${kinds[@]}"; do
    echo "# $kind: ${counts[$kind]:-0} pairs, ${both[$kind]:-0} with status 0 twice, ${failures[$kind]:-0} bad"
done
cd / && [ $bad -eq 0 ]
result $? "$trials pairs of programs that write to one target: no mixture, no silent loss"
done_testing
