#!/bin/sh
# Turns the tests into small scripts for prove: one for each (test, number of ranks), named
# BUILD/t/<room>-<name>-np<N>.t, each with a time limit, so that nothing hangs for ever. Prints their
# paths. Usage: tests/plan.sh BUILD [WHICH] [ROOM or ROOM/NAME]
#
# WHICH is
#     all         what make check runs (so it is if nothing is said)
#     alone       of these the np=0 tests: what runs under the sanitizers
#     full=PART   a part of make check-full: its own tests, and those of make check that are longer in it
#     full        all there are
#     device      those that a GPU runs where there is one, long ones too: make check DEVICE=cuda
#     parts       no tests: the parts of make check-full, a name a line
#
# A C test says on its first line what it wants, a script (tests/*/*.t, speaks TAP itself) on its
# second, where all of it may be left out:
#
#     /* TEST np=1,2,4 */                mpirun with each; np=0: a plain process; np=none: built only
#     /* TEST np=8 full=mix timeout=900 */ only in the part mix of make check-full; seconds, 300 if not said
#     /* TEST np=8 longer=mix */           in make check, and longer in that part: it looks for TRINE_FULL
#     /* TEST np=1,2,4 device */          it opens the GPU that TRINE_CUDA_LIBRARY names, or that there is
#     # TEST full=mix timeout=900
#
# A part is what its tests say; it has half an hour on two quiet cores.
set -eu

build=$1 which=${2:-all} only=${3:-}
dir=$build/t

fail() {
    echo "$1" >&2
    exit 1
}

# wrapper NAME SECONDS COMMAND...
wrapper() {
    file=$dir/$1.t seconds=$2
    shift 2
    printf '#!/bin/sh\nexport BUILD=%s\n' "$build" >"$file"
    # A folder for Open MPI's jobs: the one in /tmp is all jobs', and who thinks that he is the last one
    # removes it, even while another is about to go into it. Scripts run beside each other.
    mkdir "${file%.t}.tmp"
    printf 'export OMPI_MCA_orte_tmpdir_base="%s"\n' "$(realpath "${file%.t}.tmp")" >>"$file"
    printf 'exec timeout -k 10 %s %s\n' "$seconds" "$*" >>"$file"
    chmod +x "$file"
    echo "$file"
}

# The words after "TEST" of a marker line, without the comment signs; fails on an unknown word.
words() {
    sed -n "$2"'{s|^/\* TEST \(.*\) \*/.*$|\1|p;s|^# TEST \(.*\)$|\1|p;}' "$1"
}

# Sets np, full, part, device and seconds from marker words.
read_words() {
    np='' full='' part='' device='' seconds=300
    for word in $2; do
        case $word in
            np=none) np=none ;;
            device) device=yes ;;
            np=*[!0-9,]* | np=) fail "$1:1: what is $word? np=0, np=none or np=1,2,4" ;;
            np=*) np=${word#np=} ;;
            full=*[!a-z0-9]* | full= | longer=*[!a-z0-9]* | longer= | full | longer)
                fail "$1:1: what is $word? full=PART or longer=PART, of small letters and digits" ;;
            full=* | longer=*)
                [ -z "$part" ] || fail "$1:1: one part, not $part and $word"
                part=${word#*=} full=${word%%=*} full=${full#longer} ;;
            timeout=*[!0-9]* | timeout=) fail "$1:1: what is $word? timeout=SECONDS" ;;
            timeout=*) seconds=${word#timeout=} ;;
            *) fail "$1:1: what is \"$word\"? np=..., full=..., longer=... or timeout=..., device" ;;
        esac
    done
    if [ -z "$part" ] && grep -q 'getenv("TRINE_FULL")\|{TRINE_FULL:' "$1"; then
        fail "$1:1: it looks for TRINE_FULL: say longer=PART"
    fi
}

skipped() {
    case $only in
        '') ;;
        */*) [ "$1" = "$only" ] || return 0 ;;
        *) [ "${1%%/*}" = "$only" ] || return 0 ;;
    esac
    case $which in
        full) return 1 ;;
        device) [ -z "$device" ] ;;
        full=*) [ "$part" != "${which#full=}" ] ;;
        parts) [ -z "$part" ] || echo "$part"; return 0 ;;
        *) [ -n "$full" ] ;;
    esac
}

plan_source() {
    read_words "$1" "$(words "$1" 1)"
    [ -n "$np" ] || fail "$1:1: the first line must be like /* TEST np=1,2,4 */ (tests/plan.sh says more)"
    name=${1#tests/} name=${name%.c}
    if [ "$np" = none ] || skipped "$name"; then return 0; fi
    for n in $(echo "$np" | tr , ' '); do
        flat=$(echo "$name" | tr / -)-np$n
        if [ "$n" = 0 ]; then
            wrapper "$flat" "$seconds" "$build/tests/$name"
        elif [ "$which" != alone ]; then
            wrapper "$flat" "$seconds" "tools/mpirun.sh -np $n $build/tests/$name"
        fi
    done
}

plan_script() {
    read_words "$1" "$(words "$1" 2)"
    name=${1#tests/} name=${name%.t}
    if [ "$which" = alone ] || skipped "$name"; then return 0; fi
    wrapper "$(echo "$name" | tr / -)" "$seconds" "$1"
}

plan_all() {
    for test in tests/*/*.c; do
        if [ -e "$test" ]; then plan_source "$test"; fi
    done
    for test in tests/*/*.t; do
        if [ -e "$test" ]; then plan_script "$test"; fi
    done
}

case $which in
    all | alone | full | full=?* | device) ;;
    parts)
        found=$(plan_all)
        echo "$found" | sort -u
        exit
        ;;
    *) fail "tests/plan.sh: what is \"$which\"? all, alone, full, full=PART, device or parts" ;;
esac
rm -rf "$dir"
mkdir -p "$dir"
plan_all
