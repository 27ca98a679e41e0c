# shellcheck shell=sh disable=SC2034
# What the tests of train_gpt's failures share; sourced from the top of the tree. Speaks TAP. All files
# lie in $dir, whose name also stands in every command line: that is how processes are found again.
. tests/needs.sh
needs pgrep
BUILD=${BUILD:-build}
TRAIN=$BUILD/train_gpt
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
data=$dir/text.bin
log=$dir/log
number=0
failed=0

# Small, and fast on any machine.
SMALL="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256
       --train-iters 3 --threads 1"

result() { # result STATUS NAME: one TAP line, and what was said when it is a failure
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        echo "# status $status; statuses of ranks: $(tr '\n' ' ' <"$dir/statuses")"
        sed 's/^/# /' "$dir/out" "$dir/err"
        failed=1
    fi
}

# job RANKS ARGUMENTS...: leaves $status, $dir/out, $dir/err and the ranks' own statuses (of those
# that lived to tell) in $dir/statuses. RANKS 0: without mpirun. The outer limit only ends a broken
# test; it is far above anything that is waited for.
job() {
    ranks=$1
    shift
    : >"$dir/statuses"
    # shellcheck disable=SC2016,SC2086  # expanded by the ranks; words are meant to be split
    set -- /bin/sh -c 'at=$1; shift; "$@"; s=$?; echo $s >>"$at"; exit $s' sh "$dir/statuses" \
        "$TRAIN" $SMALL "$@"
    if [ "$ranks" -gt 0 ]; then set -- tools/mpirun.sh -np "$ranks" "$@"; fi
    timeout -k 5 120 "$@" >"$dir/out" 2>"$dir/err"
    status=$?
    [ $status -ne 137 ] || grep -q "mpirun hangs in its own clean-up" "$dir/err" || status=124
}

# start ARGUMENTS...: four ranks ($START_RANKS) that would train for ever; returns when they have made some steps
start() {
    rm -f "$log"
    : >"$dir/statuses"
    # shellcheck disable=SC2086  # words are meant to be split
    tools/mpirun.sh -np "${START_RANKS:-4}" "$TRAIN" $SMALL --data-path "$data" --log "$log" --train-iters 1000000000 \
        --log-interval 0 "$@" >"$dir/out" 2>"$dir/err" &
    launcher=$!
    tries=0
    until [ -s "$log" ] && [ "$(wc -l <"$log")" -ge 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || break
        sleep 0.1
    done
}

# below: the launcher's children and theirs: MPICH's ranks are children of a proxy
below() {
    # shellcheck disable=SC2046  # words are meant to be split
    pgrep -P "$(echo "$launcher" $(pgrep -P "$launcher") | tr ' ' ,)"
}

# pid_of RANK: of those, the rank's
pid_of() {
    for pid in $(below); do
        if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx -e "OMPI_COMM_WORLD_RANK=$1" -e "PMI_RANK=$1"; then
            echo "$pid"
            return
        fi
    done
}

# finish: waits for the launcher, which must end by itself; leaves $status
finish() {
    tries=0
    while kill -0 "$launcher" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || break
        sleep 0.1
    done
    [ $tries -lt 600 ] || kill -KILL "$launcher"
    wait "$launcher"
    status=$?
    [ $tries -lt 600 ] || status=124
}

# gone: no process of this test is left; they have a moment to leave.
gone() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        pgrep -f "$dir" >/dev/null || return 0
        sleep 0.5
    done
    return 1
}

# says COUNT TEXT: standard error has exactly COUNT lines with TEXT
says() {
    [ "$(grep -c -F -- "$2" "$dir/err")" -eq "$1" ]
}

# reported RANK STATE: one report of a wait that was too long, and RANK is the first in it, in that state
reported() {
    says 1 "trine: timed out: " &&
        case $(sed -n '/^trine: timed out/{n;p;}' "$dir/err") in "    rank $1 "*": $2"*) true ;; *) false ;; esac
}

# killed: the launcher says once that a process was killed. Open MPI names the rank, in lines that it wraps; MPICH
# says it on standard output, and the process that it names may be one that it has killed itself.
killed() {
    [ "$(tr '\n' ' ' <"$dir/err" | grep -o "exited on signal 9" | wc -l)" -eq 1 ] ||
        prints 1 "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"
}

# prints COUNT TEXT: the same of standard output
prints() {
    [ "$(grep -c -F -- "$2" "$dir/out")" -eq "$1" ]
}

# messages COUNT: over all ranks, Trine has said COUNT things
messages() {
    [ "$(sed -n '/^trine:/p' "$dir/out" "$dir/err" | wc -l)" -eq "$1" ]
}

# ended: the job failed of itself, no rank took it for a success, and nothing runs any more
ended() {
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && ! grep -qx 0 "$dir/statuses" &&
        gone
}

# precious FILE, untouched FILE: puts something there; nobody has written to it since
precious() {
    echo "yesterday's run" >"$1"
}
untouched() {
    [ "$(cat "$1")" = "yesterday's run" ]
}

# le32 NUMBER...: the bytes of a little-endian int32 each
le32() {
    for n in "$@"; do
        # shellcheck disable=SC2059  # the format is the point
        printf "$(printf '\\%03o\\%03o\\%03o\\%03o' $((n & 255)) $((n >> 8 & 255)) \
            $((n >> 16 & 255)) $((n >> 24 & 255)))"
    done
}

# token_file FILE MAGIC VERSION COUNT TOKENS: a header that names COUNT tokens, and TOKENS uint16
# tokens of 65
token_file() {
    {
        le32 "$2" "$3" "$4" 256
        head -c 1008 /dev/zero
        head -c $((2 * $5)) /dev/zero | tr '\0' A | sed 's/AA/A\x00/g'
    } >"$1"
}

# spoil FILE POSITION: token POSITION becomes 200
spoil() {
    printf '\310\000' | dd of="$1" bs=1 seek=$((1024 + 2 * $2)) conv=notrunc status=none
}
