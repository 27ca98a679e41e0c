#!/bin/sh
# Makes a wrapper script for prove for each test, with a time limit. Prints their paths. Usage:
# tests/plan.sh BUILD [WHICH] [FOLDER or FOLDER/NAME...]
#
# A wrapper is BUILD/t/<folder>-<name>.t of a script, with -np<N> of a C test, with -np<N>-<M> of one that runs on N
# and on M ranks: a single launch of the largest number, whose first ranks make the smaller worlds, one after the
# other (TRINE_WORLDS, tests/harness.c). It says how many slots the test takes (tests/Slots.pm).
#
# WHICH is
#     all         the tests of make check (default)
#     alone       the np=0 tests of all but those that are plain: they run under the sanitizers
#     full=PART   a part of make check-full: its own tests, and tests of make check that run longer in it
#     full        all tests
#     device      the tests that use a GPU, including long ones: make check DEVICE=cuda
#     parts       no tests: the names of the parts of make check-full, one a line
#     costs       no tests: NAME SECONDS of what took at least two seconds, for tests/costs
#
# A C test has a marker on its first line. A script (tests/*/*.t, prints TAP itself) has one on its second line, which
# may be omitted:
#
#     /* TEST np=1,2,4 */                 on each number of ranks; np=0: a plain process; np=none: only built
#     /* TEST np=1,2,4 apart */           a launch for each: the test asks about the whole job
#     /* TEST np=8 full=mix timeout=1800 */ only in part mix of make check-full; timeout in seconds (900) a size. A limit
#                                        ends what hangs, on a machine busy with much else; none is below 900
#     /* TEST np=8 longer=mix */           in make check; runs longer in that part, where TRINE_FULL is set
#     /* TEST np=0 plain */                not under the sanitizers: the same code with many numbers, or a count of memory
#     /* TEST np=1,2,4 device */          uses the GPU object that TRINE_CUDA_LIBRARY names, or the emulated one
#     # TEST full=mix timeout=1800
#     # TEST ranks=4                     it keeps about so many cores busy (0: it mostly waits)
#
# BUILD/t/NAME.times of the last run has the CPU times of the wrapper's shell, those of the test, and how many seconds
# it took; the next plan takes those over into BUILD/costs.
#
# MOST_RANKS=4: no launch of a C test on more ranks.
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

# wrapper NAME SLOTS SECONDS COMMAND...
wrapper() {
    file=$dir/$1.t
    printf '#!/bin/sh\n# slots %s\nexport BUILD=%s\n' "$2" "$build" >"$file"
    limit=$3
    # Sanitized code takes several times as long.
    [ "$which" != alone ] || limit=$((3 * limit))
    shift 3
    # A session folder of its own for Open MPI: the one in /tmp is shared by all jobs, and a job that considers
    # itself the last one removes it, even while another job is starting. Scripts run in parallel.
    mkdir "${file%.t}.tmp"
    printf 'export OMPI_MCA_orte_tmpdir_base="%s"\n' "$(realpath "${file%.t}.tmp")" >>"$file"
    # The time of the test's own processes: where tests run beside each other prove gives a test the time of others.
    {
        printf 'began=$(date +%%s)\ntimeout -k 10 %s %s\nstatus=$?\n' "$limit" "$*"
        printf '{ times; echo $(($(date +%%s) - began)); } >%s.times\n' "${file%.t}"
        printf 'sed -n "2s/^/# CPU time: /p" %s.times\nexit $status\n' "${file%.t}"
    } >>"$file"
    chmod +x "$file"
    echo "$file"
}

# The fields after "TEST" of a marker line, without the comment signs.
words() {
    sed -n "$2"'{s|^/\* TEST \(.*\) \*/.*$|\1|p;s|^# TEST \(.*\)$|\1|p;}' "$1"
}

# Sets np, apart, plain, ranks, full, part, device and seconds from marker fields; fails on an unknown field.
read_fields() {
    np='' apart='' plain='' ranks='' full='' part='' device='' seconds=900
    for word in $2; do
        case $word in
            np=none) np=none ;;
            device) device=yes ;;
            apart) apart=yes ;;
            plain) plain=yes ;;
            ranks=*[!0-9]* | ranks= | ranks=0) fail "$1:1: invalid \"$word\"; use ranks=NUMBER" ;;
            ranks=*) ranks=${word#ranks=} ;;
            np=*[!0-9,]* | np=) fail "$1:1: invalid \"$word\"; valid: np=0, np=none, np=1,2,4" ;;
            np=*) np=${word#np=} ;;
            full=*[!a-z0-9]* | full= | longer=*[!a-z0-9]* | longer= | full | longer)
                fail "$1:1: invalid \"$word\"; use full=PART or longer=PART, PART of lower-case letters and digits" ;;
            full=* | longer=*)
                [ -z "$part" ] || fail "$1:1: more than one part: $part and $word"
                part=${word#*=} full=${word%%=*} full=${full#longer} ;;
            timeout=*[!0-9]* | timeout=) fail "$1:1: invalid \"$word\"; use timeout=SECONDS" ;;
            timeout=*) seconds=${word#timeout=} ;;
            *) fail "$1:1: unknown word \"$word\"; valid: np=..., apart, plain, ranks=..., full=..., longer=..., timeout=..., device" ;;
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
        alone) [ -n "$full$plain" ] ;;
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
    flat=$(echo "$name" | tr / -)
    sizes=$(echo "$np" | tr , ' ') together=
    for n in $sizes; do
        [ "$n" -le "${MOST_RANKS:-$n}" ] || continue
        if [ "$n" = 0 ]; then
            wrapper "$flat-np0" "${ranks:-1}" "$seconds" "$build/tests/$name"
        elif [ "$which" = alone ]; then
            :
        elif [ -n "$apart" ]; then
            wrapper "$flat-np$n" "$n" "$seconds" "tools/mpirun.sh -np $n $build/tests/$name"
        else
            together="$together $n"
        fi
    done
    if [ -n "$together" ]; then launch_together; fi
}

# One launch for the sizes in $together.
launch_together() {
    # shellcheck disable=SC2086  # split into arguments
    set -- $together
    most=0 sizes=$*
    for n in "$@"; do [ "$n" -lt "$most" ] || most=$n; done
    if [ $# -gt 1 ]; then worlds="env TRINE_WORLDS=\"$sizes\" "; else worlds=; fi
    wrapper "$flat-np$(echo "$sizes" | tr ' ' -)" "$most" $((seconds * $#)) \
        "${worlds}tools/mpirun.sh -np $most $build/tests/$name"
}

plan_script() {
    read_fields "$1" "$(words "$1" 2)"
    name=${1#tests/} name=${name%.t}
    if [ "$which" = alone ] || skipped "$name"; then return 0; fi
    wrapper "$(echo "$name" | tr / -)" "${ranks:-0}" "$seconds" "$1"
}

plan_all() {
    for test in tests/*/*.c; do
        if [ -e "$test" ]; then plan_source "$test"; fi
    done
    for test in tests/*/*.t; do
        if [ -e "$test" ]; then plan_script "$test"; fi
    done
}

# The seconds of the last run, of the longest launch of each test, replace older ones in BUILD/costs.
keep_costs() {
    [ -d "$dir" ] || return 0
    {
        if [ -e "$build/costs" ]; then cat "$build/costs"; fi
        echo new
        find "$dir" -name '*.times' -exec awk '
            FNR == 3 { name = FILENAME; gsub(/^.*\/|(-np[0-9-]*)?\.times$/, "", name); print name, $1 }' {} +
    } | awk '
        $1 == "new" { now = 1; next }
        now && !($1 in seen) || $2 > last[$1] { last[$1] = $2 }
        now { seen[$1] }
        END { for (name in last) print name, last[name] }' | sort >"$build/costs.new"
    mv "$build/costs.new" "$build/costs"
}

case $which in
    all | alone | full | full=?* | device) ;;
    costs)
        keep_costs
        awk '$2 >= 2' "$build/costs"
        exit
        ;;
    parts)
        found=$(plan_all)
        echo "$found" | sort -u
        exit
        ;;
    *) fail "tests/plan.sh: unknown plan \"$which\"; valid: all, alone, full, full=PART, device, parts, costs" ;;
esac
keep_costs
rm -rf "$dir"
mkdir -p "$dir"
plan_all
