#!/bin/sh
# Makes a wrapper script for prove for each (test, number of ranks), named BUILD/t/<folder>-<name>-np<N>.t, with a
# time limit. Prints their paths. Usage: tests/plan.sh BUILD [WHICH] [FOLDER or FOLDER/NAME...]
#
# WHICH is
#     all         the tests of make check (default)
#     alone       the np=0 tests of all: they run under the sanitizers
#     full=PART   a part of make check-full: its own tests, and tests of make check that run longer in it
#     full        all tests
#     device      the tests that use a GPU, including long ones: make check DEVICE=cuda
#     parts       no tests: the names of the parts of make check-full, one a line
#
# A C test has a marker on its first line. A script (tests/*/*.t, prints TAP itself) has one on its second line, which
# may be omitted:
#
#     /* TEST np=1,2,4 */                mpirun with each; np=0: a plain process; np=none: only built
#     /* TEST np=8 full=mix timeout=900 */ only in part mix of make check-full; timeout in seconds (300)
#     /* TEST np=8 longer=mix */           in make check; runs longer in that part, where TRINE_FULL is set
#     /* TEST np=1,2,4 device */          uses the GPU object that TRINE_CUDA_LIBRARY names, or the emulated one
#     # TEST full=mix timeout=900
#
# The markers define the parts; a part may take half an hour on two otherwise idle cores.
set -eu

build=$1 which=${2:-all}
if [ $# -gt 2 ]; then shift 2; else shift $#; fi
only=$* # names have no spaces
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
    # A session folder of its own for Open MPI: the one in /tmp is shared by all jobs, and a job that considers
    # itself the last one removes it, even while another job is starting. Scripts run in parallel.
    mkdir "${file%.t}.tmp"
    printf 'export OMPI_MCA_orte_tmpdir_base="%s"\n' "$(realpath "${file%.t}.tmp")" >>"$file"
    # The time of the test's own processes: where tests run beside each other prove gives a test the time of others.
    {
        printf 'timeout -k 10 %s %s\nstatus=$?\n' "$seconds" "$*"
        printf 'times >%s.times\nsed -n "2s/^/# CPU time: /p" %s.times\nexit $status\n' "${file%.t}" "${file%.t}"
    } >>"$file"
    chmod +x "$file"
    echo "$file"
}

# The fields after "TEST" of a marker line, without the comment signs.
words() {
    sed -n "$2"'{s|^/\* TEST \(.*\) \*/.*$|\1|p;s|^# TEST \(.*\)$|\1|p;}' "$1"
}

# Sets np, full, part, device and seconds from marker fields; fails on an unknown field.
read_fields() {
    np='' full='' part='' device='' seconds=300
    for word in $2; do
        case $word in
            np=none) np=none ;;
            device) device=yes ;;
            np=*[!0-9,]* | np=) fail "$1:1: invalid \"$word\"; valid: np=0, np=none, np=1,2,4" ;;
            np=*) np=${word#np=} ;;
            full=*[!a-z0-9]* | full= | longer=*[!a-z0-9]* | longer= | full | longer)
                fail "$1:1: invalid \"$word\"; use full=PART or longer=PART, PART of lower-case letters and digits" ;;
            full=* | longer=*)
                [ -z "$part" ] || fail "$1:1: more than one part: $part and $word"
                part=${word#*=} full=${word%%=*} full=${full#longer} ;;
            timeout=*[!0-9]* | timeout=) fail "$1:1: invalid \"$word\"; use timeout=SECONDS" ;;
            timeout=*) seconds=${word#timeout=} ;;
            *) fail "$1:1: unknown word \"$word\"; valid: np=..., full=..., longer=..., timeout=..., device" ;;
        esac
    done
    if [ -z "$part" ] && grep -q 'getenv("TRINE_FULL")\|{TRINE_FULL:' "$1"; then
        fail "$1:1: uses TRINE_FULL without longer=PART"
    fi
}

skipped() {
    case " $only " in
        "  " | *" $1 "* | *" ${1%%/*} "*) ;;
        *) return 0 ;;
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
    read_fields "$1" "$(words "$1" 1)"
    [ -n "$np" ] || fail "$1:1: no marker; the first line must be like /* TEST np=1,2,4 */ (see tests/plan.sh)"
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
    read_fields "$1" "$(words "$1" 2)"
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
    *) fail "tests/plan.sh: unknown plan \"$which\"; valid: all, alone, full, full=PART, device, parts" ;;
esac
rm -rf "$dir"
mkdir -p "$dir"
plan_all
