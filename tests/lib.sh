# shellcheck shell=sh disable=SC2034
# Shared by the shell tests; sourced from the root of the repository, by sh or bash, with or without set -e. Prints
# TAP: a case is a line of result, check or skip, and done_testing exits; with TRINE_FIRST_FAILURE set so does the first
# case that fails. All files are in $dir, which is also part of the command line of every training, so that its processes
# can be found.

# needs COMMAND...: fails the test immediately if one of them is missing, instead of later in a wait
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

# What programs print is text: Open MPI 5's mpirun writes a NUL among it, of which grep would only say that it matches.
grep() { command grep -a "$@"; }

# packages GROUP...: installs what is missing of these groups of tools/deps.sh; the test's PATH has the commands of
# what was there when the run began, so it is made again. Output on standard error; false if they cannot be installed.
packages() {
    tools/deps.sh "$@" >&2 || return 1
    PATH=$(tests/path.sh "$BUILD")
    export PATH
}

# ---- Cases

# skip_all WHY: skips the whole script
skip_all() {
    reasoned "$1"
    echo "1..0 # SKIP $1"
    exit 0
}

skip() { # skip NAME WHY
    reasoned "$2"
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

# reasoned WHY: fails the test if it is none; one that ends with a colon has lost its second half
reasoned() {
    case $1 in '' | *: | *": ") ;; *) return 0 ;; esac
    number=$((number + 1))
    echo "not ok $number - skipped without a reason: $1"
    failed=1
    done_testing
}

result() { # result STATUS NAME: with the output in case of failure
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
    [ -z "${TRINE_FIRST_FAILURE:-}" ] || done_testing
}

# check NAME COMMAND...: a case that passes if the command succeeds; its output is in $dir/said
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

# run COMMAND...: sets $status, $dir/out and $dir/err. The limit (LIMIT, 300 s) only stops a broken test, with 124:
# it is much longer than any expected time, as are all limits here, since a disk that others write to can take a minute
# for an fsync. A hanging mpirun that was killed does not count as a timeout.
run() {
    status=0
    timeout -k 5 "${LIMIT:-300}" "$@" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" -ne 137 ] || grep -q "mpirun hangs in its clean-up" "$dir/err" || status=124
}

# run_ranks RANKS COMMAND...: the same under mpirun (0: without); each rank that exits by itself adds its status to
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

# own_session NAME: for a job beside another one, to be called in a shell of its own: of two that create Open MPI's
# session folder at the same moment one fails
own_session() {
    mkdir -p "$dir/session-$1"
    export OMPI_MCA_orte_tmpdir_base="$dir/session-$1"
}

# eventually SECONDS COMMAND...: repeats the command until it succeeds, at most that long
eventually() {
    deadline=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

# background COMMAND...: sets $launcher; the output goes to $dir/out and $dir/err
background() {
    : >"$dir/statuses"
    "$@" >"$dir/out" 2>"$dir/err" &
    launcher=$!
}

# finish: waits for the launcher, which must exit by itself; sets $status
finish() {
    late=
    eventually 300 launcher_gone || late=124
    [ -z "$late" ] || kill -KILL "$launcher"
    wait "$launcher"
    status=$?
    status=${late:-$status}
}

launcher_gone() {
    ! kill -0 "$launcher" 2>/dev/null
}

# below: three generations under the launcher (under tools/mpirun.sh Open MPI's mpirun and its ranks; MPICH's ranks are
# children of a proxy), the elder first
below() {
    # shellcheck disable=SC2086  # words are meant to be split
    (
        all=$launcher
        for _ in 1 2 3; do
            all=$(pgrep -P "$(echo $all | tr ' ' ,)") || break
            echo $all
        done
    )
}

# ranks_below PATTERN: those below that the launcher has started as a rank of this number
ranks_below() {
    for pid in $(below); do
        # A process may be gone by now.
        tr '\0' '\n' 2>>"$dir/gone" <"/proc/$pid/environ" | grep -qx -e "OMPI_COMM_WORLD_RANK=$1" -e "PMI_RANK=$1" || continue
        echo "$pid"
    done 2>>"$dir/gone"
}

# pid_of RANK: the process of the rank
pid_of() {
    ranks_below "$1" | head -n 1
}

# gone: no process of this test is left, or will be soon
gone() {
    eventually 300 none_left
}

none_left() {
    ! pgrep -f "$dir" >/dev/null
}

# mounts_at PLACE: sets $mounts to the options with which unshare makes a namespace where PLACE may be mounted over;
# false if none is permitted
mounts_at() {
    for mounts in -m -rm; do
        if unshare $mounts mount -t tmpfs -o size=1m tmpfs "$1" 2>/dev/null; then return 0; fi
    done
    return 1
}

# own_mounts PLACE [HOW]: restarts the script with HOW "own" in such a namespace, or "shared"; sets $place to HOW
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

# ---- Output

# says COUNT TEXT: standard error has exactly COUNT lines with TEXT
says() {
    [ "$(grep -c -F -- "$2" "$dir/err")" -eq "$1" ]
}

# prints COUNT TEXT: the same of standard output
prints() {
    [ "$(grep -c -F -- "$2" "$dir/out")" -eq "$1" ]
}

# A start removes what a job of another test, killed in its start, may just have left in /dev/shm, and says so.
SWEPT='/^trine: removed [0-9]* boards\{0,1\} that ended jobs have left: /d'

# messages COUNT: all ranks together printed COUNT messages of Trine
messages() {
    [ "$(sed -n "$SWEPT; /^trine:/p" "$dir/out" "$dir/err" | wc -l)" -eq "$1" ]
}

# quiet: nothing on standard error
quiet() {
    [ -z "$(sed "$SWEPT" "$dir/err")" ]
}

# silent: no rank printed a message of Trine, except that another one is gone, for which its launcher may leave no time
silent() {
    ! sed "$SWEPT; /^trine: rank .* has ended/d" "$dir/out" "$dir/err" | grep -q '^trine:'
}

# ended: the job failed by itself, no rank exited with 0, and no process is left
ended() {
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && ! grep -qx 0 "$dir/statuses" && gone
}

# accused RANK STATE: the first rank in the report of a timeout, and its state
accused() {
    case $(sed -n '/^trine: timed out/{n;p;}' "${3:-$dir/err}") in "    rank $1 "*": $2"*) true ;; *) false ;; esac
}

# reported RANK STATE: there is one such report
reported() {
    says 1 "trine: timed out: " && accused "$1" "$2"
}

# killed: the launcher reports once that a process was killed. Open MPI names the rank, in wrapped lines; MPICH
# reports on standard output, and the process that it names may be one that it has killed itself.
killed() {
    [ "$(tr '\n' ' ' <"$dir/err" | grep -o "exited on signal 9" | wc -l)" -eq 1 ] ||
        prints 1 "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"
}

# disk_full: the failed write to /dev/full was reported once
disk_full() {
    [ "$status" -eq 1 ] && messages 1 && says 1 "cannot write the output: No space left on device"
}

# ---- Files

# precious FILE: writes a text to it; untouched FILE: it still has that text
precious() {
    echo "yesterday's run" >"$1"
}
untouched() {
    [ "$(cat "$1")" = "yesterday's run" ]
}

# numbers LOG: steps, losses and norms of a log, to the last of their 17 digits; all_numbers: also what follows from them
numbers() {
    grep -o '"\(step\|loss\|grad_norm\)":[^,}]*' "$1"
}
all_numbers() {
    grep -o '"\(step\|loss\|grad_norm\|lr\|loss_scale\|skips\)":[^,}]*' "$1"
}

# holds EXPRESSION: a Perl expression that is true for the contents of $dir/json, in $j; near(a, b) is equality up to
# rounding
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

# le32 NUMBER...: each as the bytes of a little-endian int32
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

# What trains in bf16 on this processor: AVX-512 BF16 or AMX, else the slow device.
BF16=--bf16
has_bf16() {
    grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo
}
has_bf16 || BF16="--bf16 --device ref"

# job RANKS ARGUMENTS...: run_ranks with train_gpt
job() {
    ranks=$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run_ranks "$ranks" "$TRAIN" $SMALL "$@"
}

# steps_in LOG: how many it has; a line of a validation alone is none
steps_in() {
    if [ -s "$1" ]; then grep -c '"loss":' "$1" || true; else echo 0; fi
}

# lines COUNT: the log has at least so many lines
lines() {
    [ -s "$log" ] && [ "$(wc -l <"$log")" -ge "$1" ]
}

# start ARGUMENTS...: four ranks ($START_RANKS) that train indefinitely; returns after some steps
start() {
    rm -f "$log"
    # shellcheck disable=SC2086  # words are meant to be split
    background tools/mpirun.sh -np "${START_RANKS:-4}" "$TRAIN" $SMALL --data-path "$data" --log "$log" \
        --train-iters 1000000000 --log-interval 0 "$@"
    eventually 300 lines 3
}
