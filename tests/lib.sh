# shellcheck shell=sh disable=SC2034
# What the shell tests share; sourced from the top of the tree, by sh or bash, with set -e or without. Speaks TAP: a
# case is a line of result, check or skip, and done_testing ends the script. All files lie in $dir, whose name also
# stands in the command line of every training: that is how its processes are found again.

# needs COMMAND...: a test that lacks one of them fails here and now, and says which, instead of waiting for what
# the command would have done.
needs() {
    for command in "$@"; do
        command -v "$command" >/dev/null && continue
        echo "1..1"
        echo "not ok 1 - $0 needs $command, which is not in its PATH"
        echo "# tools/deps.sh names the packages whose commands tests may use (tests/path.sh)"
        exit 1
    done
}

needs pgrep
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
number=0
failed=0
: >"$dir/statuses"

# ---- Cases

# skip_all WHY: nothing of this script can be tested here
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

skip() { # skip NAME WHY
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

result() { # result STATUS NAME: of a failure also what was said
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
        return
    fi
    echo "not ok $number - $2"
    failed=1
    echo "# status ${status:-unknown}; statuses of ranks: $(tr '\n' ' ' <"$dir/statuses")"
    for said in said out err; do
        if [ -s "$dir/$said" ]; then sed 's/^/# /' "$dir/$said"; fi
    done
}

# check NAME COMMAND...: a case that is good if the command succeeds; meanwhile what it says is in $dir/said
check() {
    case_name=$1
    shift
    if "$@" >"$dir/said" 2>&1; then result 0 "$case_name"; else result 1 "$case_name"; fi
    : >"$dir/said"
}

done_testing() {
    echo "1..$number"
    exit "$failed"
}

# ---- Commands

# run COMMAND...: leaves $status, $dir/out and $dir/err. The limit (LIMIT, 120 s) only ends a broken test, with 124;
# it is far above anything that is waited for. That mpirun may have had to be ended is not ours.
run() {
    status=0
    timeout -k 5 "${LIMIT:-120}" "$@" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" -ne 137 ] || grep -q "mpirun hangs in its own clean-up" "$dir/err" || status=124
}

# run_ranks RANKS COMMAND...: the same under mpirun, 0 without; each rank that lives to tell adds its own status to
# $dir/statuses
run_ranks() {
    ranks=$1
    shift
    : >"$dir/statuses"
    # shellcheck disable=SC2016  # expanded by the ranks
    set -- /bin/sh -c 'at=$1; shift; "$@"; s=$?; echo $s >>"$at"; exit $s' sh "$dir/statuses" "$@"
    if [ "$ranks" -gt 0 ]; then set -- tools/mpirun.sh -np "$ranks" "$@"; fi
    run "$@"
}

# eventually SECONDS COMMAND...: it succeeds within that time
eventually() {
    deadline=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

# background COMMAND...: leaves $launcher, and what is said in $dir/out and $dir/err
background() {
    : >"$dir/statuses"
    "$@" >"$dir/out" 2>"$dir/err" &
    launcher=$!
}

# finish: waits for the launcher, which must end by itself; leaves $status
finish() {
    late=
    eventually 60 launcher_gone || late=124
    [ -z "$late" ] || kill -KILL "$launcher"
    wait "$launcher"
    status=$?
    status=${late:-$status}
}

launcher_gone() {
    ! kill -0 "$launcher" 2>/dev/null
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

# gone: no process of this test is left; they have a moment to leave.
gone() {
    eventually 5 none_left
}

none_left() {
    ! pgrep -f "$dir" >/dev/null
}

# mounts_at PLACE: the words with which unshare makes a namespace where PLACE may be mounted over are in $mounts;
# false if none is permitted
mounts_at() {
    for mounts in -m -rm; do
        if unshare $mounts mount -t tmpfs -o size=1m tmpfs "$1" 2>/dev/null; then return 0; fi
    done
    return 1
}

# own_mounts PLACE [HOW]: a script begins again with HOW "own" in such a namespace, or "shared"; leaves it in $place
own_mounts() {
    place=${2:-}
    [ -z "$place" ] || return 0
    rm -rf "$dir"
    trap - EXIT
    if mounts_at "$1"; then exec unshare "$mounts" "$0" own; fi
    exec "$0" shared
}

# draw N: $r is from 0 to N - 1, by $seed
draw() {
    seed=$(((seed * 1103515245 + 12345) & 0x7fffffff))
    r=$(((seed >> 12) % $1))
}

# ---- What was said

# says COUNT TEXT: standard error has exactly COUNT lines with TEXT
says() {
    [ "$(grep -c -F -- "$2" "$dir/err")" -eq "$1" ]
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
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && ! grep -qx 0 "$dir/statuses" && gone
}

# accused RANK STATE: the first rank in the report of a wait that was too long, and its state
accused() {
    case $(sed -n '/^trine: timed out/{n;p;}' "${3:-$dir/err}") in "    rank $1 "*": $2"*) true ;; *) false ;; esac
}

# reported RANK STATE: there is one such report
reported() {
    says 1 "trine: timed out: " && accused "$1" "$2"
}

# killed: the launcher says once that a process was killed. Open MPI names the rank, in lines that it wraps; MPICH
# says it on standard output, and the process that it names may be one that it has killed itself.
killed() {
    [ "$(tr '\n' ' ' <"$dir/err" | grep -o "exited on signal 9" | wc -l)" -eq 1 ] ||
        prints 1 "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"
}

# disk_full: what was written to /dev/full was said to be lost, once
disk_full() {
    [ "$status" -eq 1 ] && messages 1 && says 1 "the output cannot be written: No space left on device"
}

# ---- Files

# precious FILE, untouched FILE: puts something there; nobody has written to it since
precious() {
    echo "yesterday's run" >"$1"
}
untouched() {
    [ "$(cat "$1")" = "yesterday's run" ]
}

# numbers LOG: steps, losses and norms of a log, to the last of their 17 digits
numbers() {
    grep -o '"\(step\|loss\|grad_norm\)":[^,}]*' "$1"
}

# holds EXPRESSION: Perl's, true of the file $dir/json, which is $j; near(a, b) is equality but for rounding
holds() {
    perl -MJSON::PP -e '
        our $j;
        sub near { defined $_[0] && abs($_[0] - $_[1]) <= ($_[2] // 1e-9) * abs($_[1]) }
        sub rows { @{$j->{tables}{$_[0]}} }
        sub with { my ($rows, $key, $value) = @_; (grep { $_->{$key} eq $value } @$rows)[0] }
        sub sum { my ($key, @rows) = @_; my $s = 0; $s += $_->{$key} for @rows; $s }
        local $/;
        open my $file, "<", $ARGV[0] or die;
        $j = decode_json(<$file>);
        exit !eval $ARGV[1];' "$dir/json" "$1"
}

# le32 NUMBER...: the bytes of a little-endian int32 each
le32() {
    for n in "$@"; do
        # shellcheck disable=SC2059  # the format is the point
        printf "$(printf '\\%03o\\%03o\\%03o\\%03o' $((n & 255)) $((n >> 8 & 255)) \
            $((n >> 16 & 255)) $((n >> 24 & 255)))"
    done
}

# token_file FILE MAGIC VERSION COUNT TOKENS: a header that names COUNT tokens, and TOKENS uint16 tokens of 65
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

# ---- Trainings

TRAIN=$BUILD/train_gpt
data=$dir/text.bin
log=$dir/log

# Small, and fast on any machine.
SMALL="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256
       --train-iters 3 --threads 1"

# job RANKS ARGUMENTS...: run_ranks of train_gpt
job() {
    ranks=$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run_ranks "$ranks" "$TRAIN" $SMALL "$@"
}

# lines COUNT: the log has so many, or more
lines() {
    [ -s "$log" ] && [ "$(wc -l <"$log")" -ge "$1" ]
}

# start ARGUMENTS...: four ranks ($START_RANKS) that would train for ever; returns when they have made some steps
start() {
    rm -f "$log"
    # shellcheck disable=SC2086  # words are meant to be split
    background tools/mpirun.sh -np "${START_RANKS:-4}" "$TRAIN" $SMALL --data-path "$data" --log "$log" \
        --train-iters 1000000000 --log-interval 0 "$@"
    eventually 60 lines 3
}
