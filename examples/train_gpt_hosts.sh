#!/bin/sh
# A run that outlives its hosts, under plain mpirun: it is started on those hosts of a host file that answer, and again
# when one of them is lost, from the last checkpoint.
#
#     HOSTS=hosts examples/train_gpt_hosts.sh --data-path text_train.bin --save run --train-iters 100000 \
#         --dp 2 --tp 2 --pp 2 --global-batch-size 64 --exact
#
# What is asked for (--dp, --tp, --pp) is the layout on all hosts. With fewer ranks the run takes the best one that
# --layouts prints, with the rule; with --exact that changes no number. While hosts are missing they are asked again;
# when those that answer are enough for more ranks, the run is stopped after its next checkpoint (status 75) and starts
# on all of them. So a host that comes and goes costs a restart for a checkpoint at most.
#
# Two starts in a row without a new checkpoint end it, and so does a failure with a status up to 128 while all hosts of
# the run answer: a wrong option, a full disk. SIGINT, SIGTERM, SIGHUP and SIGUSR1 are for the run: it saves and exits
# with status 75, and this script too. A second one (not SIGUSR1) ends it at once.
#
# HOSTS: Open MPI's host file: lines "node1 slots=4" (without slots: one), "#" begins a comment. It is read again while
# hosts are asked. LAUNCH: mpirun and its options; -np, --hostfile or --host are added (tools/mpirun.sh of this
# checkout). PROBE: what says whether the host behind it answers; by default LAUNCH runs `true` there within a minute.
# TRAIN: the trainer (build/train_gpt of this checkout). WATCH_SECONDS: between two questions to missing hosts (60).
set -u

root=$(dirname "$(dirname "$(realpath "$0")")")
hosts=${HOSTS:?is the host file}
work=$(mktemp -d) || exit 1
mpirun='' grower='' starting='' told=''

say() {
    echo "train_gpt_hosts.sh: $1"
}

# leave STATUS
leave() {
    [ -z "$grower" ] || kill "$grower" 2>/dev/null
    rm -rf "$work"
    exit "$1"
}

# told_by SIGNAL: asks the run to save and end; before it is started this script ends
# shellcheck disable=SC2317  # called by traps
told_by() {
    again=$told
    told=$1
    if [ -z "$mpirun" ]; then
        [ -n "$starting" ] || leave 75
    elif [ -z "$again" ] || [ "$1" = USR1 ]; then
        kill -s USR1 "$mpirun" 2>/dev/null
    else
        # tools/mpirun.sh takes the first one as a request to save.
        kill -s TERM "$mpirun" 2>/dev/null
        sleep 1
        kill -s TERM "$mpirun" 2>/dev/null
    fi
}

# refuse TEXT
refuse() {
    say "$1" >&2
    leave 2
}

# is_command NAME WORD...: the variable's first word
is_command() {
    command -v "$2" >/dev/null || refuse "$1: $2 is not a program here; set $1 to one"
}

# ---- Hosts

# read_hosts: $work/lines becomes the lines of the host file that name a host, a space between words; what is wrong is
# printed, and the lines stay as they were
read_hosts() {
    [ -r "$hosts" ] || { echo "HOSTS=$hosts: cannot be read" && return 1; }
    wrong=$(LC_ALL=C awk -v out="$work/lines.new" '
        BEGIN { printf "" >out }
        NR == 1 { sub(/^\357\273\277/, "") }
        { sub(/\r$/, ""); sub(/#.*/, ""); gsub(/[ \t]*=[ \t]*/, "=") }
        NF {
            for (n = 1; n <= NF; n++) {
                slots = substr($n, 7)
                if ($n !~ /^slots=/) $n = $n
                else if (n > 1 && slots ~ /^[0-9]+$/ && slots + 0 >= 1 && slots + 0 <= 99999) $n = "slots=" slots + 0
                else {
                    print ", line " NR ": " $n ": must be slots=N after a host, N from 1 to 99999"
                    exit
                }
            }
            print >out
            hosts++
        }
        END { if (!hosts) print ": no line names a host" }' "$hosts" 2>&1 | head -n 1)
    [ -z "$wrong" ] || { echo "HOSTS=$hosts$wrong" && return 1; }
    mv "$work/lines.new" "$work/lines"
}

# slots_of WORD...: of a line of a host file
slots_of() {
    count=1
    for word in "$@"; do
        case $word in slots=*) count=${word#slots=} ;; esac
    done
    echo "$count"
}

# probe HOST SLOTS
probe() {
    # shellcheck disable=SC2086  # several words
    if [ -n "${PROBE:-}" ]; then
        $PROBE "$1"
    else
        timeout -k 5 60 ${LAUNCH:-"$root/tools/mpirun.sh"} -np 1 --host "$1:$2" true
    fi
} >/dev/null 2>&1 </dev/null

# ask FILE: asks all hosts at the same time. Those lines of the host file that answer become FILE; sets $found, their
# slots, and $missing, the other hosts.
ask() {
    read_hosts >"$work/wrong" || say "$(cat "$work/wrong"): the hosts read before are kept"
    rm -f "$work"/answer-*
    probes=''
    while read -r host rest; do
        # shellcheck disable=SC2086  # words of a line
        { probe "$host" "$(slots_of $rest)" && : >"$work/answer-$host"; } &
        probes="$probes $!"
    done <"$work/lines"
    # shellcheck disable=SC2086  # one a host
    wait $probes
    found=0 missing=''
    while read -r host rest; do
        if [ -e "$work/answer-$host" ]; then
            echo "$host${rest:+ $rest}" >&3
            # shellcheck disable=SC2086  # words of a line
            found=$((found + $(slots_of $rest)))
        else
            missing="$missing $host"
        fi
    done <"$work/lines" 3>"$1"
}

# host_lost: whether one of the hosts of the last run is missing
host_lost() {
    while read -r host _; do
        case "$missing " in *" $host "*) return 0 ;; esac
    done <"$work/hosts.ran"
    return 1
}

# ---- Layouts

# ranks OPTION...: of the layout that these options name
ranks() {
    product=1
    while [ $# -gt 1 ]; do
        case $1 in --dp | --tp | --pp) product=$((product * $2)) ;; esac
        shift
    done
    echo "$product"
}

# best RANKS COMMAND...: the options of the best layout of at most so many ranks
best() {
    room=$1
    shift
    layouts=$("$@" --layouts --ranks "$room") && echo "$layouts" | head -n 1
}

# ---- Runs

# saved: the newest checkpoint
saved() {
    cat "$save/latest" 2>/dev/null
}

# grow COMMAND...: waits until the hosts that answer are enough for more ranks, and then for a checkpoint; asks the run
# to save and end
grow() {
    trap 'kill $!; exit' TERM
    while
        sleep "${WATCH_SECONDS:-60}" &
        wait $!
        ask "$work/more"
        # shellcheck disable=SC2046  # options
        [ "$found" -le "$slots" ] || [ "$(ranks $(best "$found" "$@"))" -le "$np" ]
    do :; done
    newest=$(saved)
    while [ "$(saved)" = "$newest" ]; do
        sleep 1 &
        wait $!
    done
    : >"$work/grown"
    kill -s USR1 "$mpirun"
} >/dev/null 2>&1 </dev/null

# start COMMAND...: runs it on the hosts of $work/hosts; sets $status and $grown
start() {
    rm -f "$work/grown"
    starting=yes
    # shellcheck disable=SC2086  # several words
    ${LAUNCH:-"$root/tools/mpirun.sh"} -np "$np" --hostfile "$work/hosts" "$@" $layout &
    mpirun=$!
    starting=''
    [ -z "$told" ] || kill -s USR1 "$mpirun"
    if [ -n "$missing" ]; then
        grow "$@" &
        grower=$!
    fi
    # A trap interrupts the wait; if mpirun has exited meanwhile, it may be known no longer (127).
    status=127
    while
        now=0
        wait "$mpirun" || now=$?
        [ $now -eq 127 ] && [ $status -ne 127 ] || status=$now
        kill -0 "$mpirun" 2>/dev/null
    do :; done
    [ -z "$grower" ] || kill "$grower" 2>/dev/null
    mpirun='' grower='' grown=''
    if [ -e "$work/grown" ]; then grown=', to go on with more ranks'; fi
    # MPICH 4's mpirun sometimes exits with 0 after it has passed a signal, whatever the ranks' status. A run that has
    # reached its end says so when it is started again.
    if [ "$status" -eq 0 ] && [ -n "$told$grown" ]; then status=75; fi
}

save='' before=''
for word in "$@"; do
    if [ "$before" = --save ]; then save=$word; fi
    case $word in --save=*) save=${word#--save=} ;; esac
    before=$word
done
[ -n "$save" ] || refuse "--save DIR is required: a run that is not saved is lost with its host"
read_hosts >"$work/wrong" || refuse "$(cat "$work/wrong")"
for signal in INT TERM HUP USR1; do
    # shellcheck disable=SC2064  # now
    trap "told_by $signal" $signal
done
# shellcheck disable=SC2086  # several words
{
    is_command LAUNCH ${LAUNCH:-"$root/tools/mpirun.sh"}
    is_command PROBE ${PROBE:-true}
    is_command TRAIN ${TRAIN:-"$root/build/train_gpt"}
}
# default OPTION VALUE ARGUMENTS...: both, unless the option is among the arguments
default() {
    option=$1 value=$2
    shift 2
    case " $* " in *" $option "* | *" $option="*) ;; *) echo "$option $value" ;; esac
}
# shellcheck disable=SC2046,SC2086  # several words
set -- ${TRAIN:-"$root/build/train_gpt"} --load auto $(default --save-interval 500 "$@") $(default --keep 3 "$@") "$@"

vain=0 status=''
while [ $vain -lt 2 ]; do
    ask "$work/hosts"
    [ -z "$missing" ] || say "no answer from$missing"
    if [ -n "$status" ] && [ "$status" -le 128 ] && [ "$status" -ne 75 ] && ! host_lost; then
        say "the run has failed with status $status, and all its hosts answer: it is not started again"
        leave "$status"
    fi
    slots=$found newest=$(saved)
    cp "$work/hosts" "$work/hosts.ran"
    if [ "$slots" -eq 0 ]; then
        vain=$((vain + 1)) status='' ended="no host answers"
        [ $vain -eq 2 ] || sleep "${WATCH_SECONDS:-60}"
        continue
    fi
    layout=$(best "$slots" "$@") || leave 1
    # shellcheck disable=SC2086  # options
    np=$(ranks $layout)
    say "starts on $np ranks: $layout"
    start "$@"
    [ "$status" -ne 0 ] || leave 0
    [ "$status" -ne 75 ] || [ -n "$grown" ] || leave 75
    [ -z "$told" ] || leave "$status"
    if [ "$(saved)" = "$newest" ]; then vain=$((vain + 1)); else vain=0; fi
    ended="the run has ended with status $status"
    say "$ended$grown; its newest checkpoint is $(saved)"
done
say "$ended, and two starts in a row made no new checkpoint: it is not started again"
leave "${status:-1}"
