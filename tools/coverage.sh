#!/bin/sh
# Which test executes which line: builds with gcov's counters in BUILD/coverage, runs each test of make check there by
# itself (each number of ranks, too), and keeps the lines of the sources that it executes.
# Usage: tools/coverage.sh BUILD [FOLDER or FOLDER/NAME...]: all tests, or these; J=2: so many beside each other.
# An interrupted run goes on where it was: a run that is younger than what it ran is not repeated.
#
# Results are in BUILD/coverage/runs, of each run NAME=RANKS (zero-bytes=4):
#     NAME=RANKS.lines    file and lines: src/zero/gather.c 12-18 20
#     NAME=RANKS.seconds  CPU seconds here (in a normal build fewer), and its exit status
# and in tests/coverage, which is committed: a file's tests, for tests/changed.sh and tools/mutants.sh. Its seconds are
# those of the last make check in BUILD, where there was one. A test that has not been run here keeps what the record
# says of it, so that a new test is added without running all.
#
# Not seen: what processes execute that end by a signal or by _exit, and what runs in another build than this one
# (scripts that make a tree of their own).
set -eu

self=$(realpath "$0")
cd "$(dirname "$self")/.."
build=$1
shift
cov=$build/coverage
runs=$cov/runs
record=tests/coverage

fail() {
    echo "tools/coverage.sh: $*" >&2
    exit 1
}

# flat TEST RANKS: a file's name
flat() {
    echo "$(echo "$1" | tr / -)=$2"
}

# ---- One run

# launch TEST RANKS SECONDS
launch() {
    limit=$(($3 * 4)) # counters cost time
    case $2 in
        -) set -- "tests/$1.t" ;;
        0) set -- "$cov/tests/$1" ;;
        *) set -- tools/mpirun.sh -np "$2" "$cov/tests/$1" ;;
    esac
    status=0
    timeout -k 10 $limit "$@" >"$one.said" 2>&1 </dev/null || status=$?
}

# executed: the lines of the run's counters, file by file
executed() {
    # Counters whose notes are gone are of an older program.
    (cd "$raw" && find . -name "*.gcda") | sed "s/gcda$/gcno/" |
        (cd "$cov" && xargs -r cp -l --parents -t "$PWD/${raw#"$cov"/}") || true
    find "$raw" -name '*.gcda' -print0 | xargs -0 -r gcov -t 2>/dev/null | awk -F: '
        $2 ~ /^ *0$/ && $3 == "Source" {
            file = $4
            wanted = file ~ /^(src|include|emu|tools|examples|bench)\// || file ~ /^tests\/[^\/]*$/ || file ~ /^tests\/[^\/]*\/[^\/]*\.h$/
            next
        }
        wanted && $1 ~ /^ *[0-9]/ { print file, $2 + 0 }' | sort -u -k1,1 -k2,2n | awk '
        function close_range() { if (last) printf " %s", first < last ? first "-" last : first }
        $1 != file { close_range(); if (file) printf "\n"; file = $1; printf "%s", file; last = 0 }
        last && $2 == last + 1 { last = $2; next }
        { close_range(); first = last = $2 }
        END { close_range(); if (file) printf "\n" }'
}

# one TEST RANKS SECONDS
one() {
    one=$runs/$(flat "$1" "$2")
    raw=$one.raw
    rm -rf "$raw" "$one.tmp"
    mkdir -p "$raw" "$one.tmp"
    export BUILD="$cov" GCOV_PREFIX="$PWD/$raw" OMPI_MCA_orte_tmpdir_base="$PWD/$one.tmp"
    # The counters' paths below the build are the same there.
    GCOV_PREFIX_STRIP=$(echo "$PWD/$cov" | tr -cd / | wc -c)
    export GCOV_PREFIX_STRIP
    launch "$@"
    times >"$one.times"
    executed >"$one.lines.new"
    rm -rf "$raw" "$one.tmp"
    awk -v status=$status 'NR == 2 { gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4, status }' "$one.times" >"$one.seconds"
    rm "$one.times"
    [ $status != 0 ] || rm "$one.said"
    mv "$one.lines.new" "$one.lines"
    echo "$1 $2: $(cut -d' ' -f1 <"$one.seconds") s$([ $status = 0 ] || echo ", FAILED: $one.said")"
}

# ---- All runs

# done_already TEST RANKS
done_already() {
    lines=$runs/$(flat "$1" "$2").lines
    [ -e "$lines" ] || return 1
    [ -z "$(find "$cov/libtrine.a" "$cov/tests/$1" "tests/$1.t" -newer "$lines" 2>/dev/null)" ]
}

# chosen [TEST...]: TEST RANKS SECONDS of the runs
chosen() {
    tests/sizes.sh | while read -r test ranks seconds; do
        found=
        for word in "$@"; do
            case $test in "$word" | "$word"/*) found=yes ;; esac
        done
        if [ $# -gt 0 ] && [ -z "$found" ]; then continue; fi
        done_already "$test" "$ranks" || echo "$test $ranks $seconds"
    done
}

# ---- The record

# seconds TEST: of the last make check; else here
seconds() {
    name=$(echo "$1" | tr / -)
    set -- "$build/t/$name".times "$build/t/$name"-np[0-9]*.times
    if [ -e "$1" ] || [ -e "${2:-}" ]; then
        cat "$@" 2>/dev/null | awk '/^[0-9.]+m[0-9.]+s [0-9.]+m[0-9.]+s$/ { split($0, t, /[ms ]+/); if (++n % 2 == 0) sum += t[1] * 60 + t[2] + t[3] * 60 + t[4] } END { printf "%.1f\n", sum }'
    else
        cat "$runs/$name"=*.seconds | awk '{ sum += $1 } END { printf "%.1f\n", sum }'
    fi
}

# files_of TEST: the files of which it executes lines by the record
files_of() {
    awk -v test="$1" '
        $1 == "#" { next }
        $1 == "test" { n++; if ($2 == test) at = n - 1; next }
        {
            digit = index("0123456789abcdef", substr($2, int(at / 4) + 1, 1)) - 1
            if (int(digit / 2 ^ (3 - at % 4)) % 2) print $1
        }' "$record" | while read -r file; do if [ -e "$file" ]; then echo "$file"; fi; done
}

# Of each test a line "test NAME SECONDS", in order; of each file a line "FILE TESTS", where TESTS has a digit for four
# tests: 8 is the first of them, 4 the second.
write_record() {
    echo "# Which tests of make check execute lines of which file: written by tools/coverage.sh $build, read by"
    echo "# tests/changed.sh and tools/mutants.sh. A file's hexadecimal digits stand for four tests each, in their order:"
    echo "# 8 is the first of the four. Seconds are CPU seconds."
    tests/sizes.sh | cut -d' ' -f1 | uniq | while read -r test; do
        set -- "$runs/$(echo "$test" | tr / -)"=*.lines
        if [ -e "$1" ]; then echo "test $test $(seconds "$test")"; else grep "^test $test " "$record" || true; fi
    done >"$cov/tests.recorded"
    cat "$cov/tests.recorded"
    # shellcheck disable=SC2094  # only read
    while read -r _ test _; do
        set -- "$runs/$(echo "$test" | tr / -)"=*.lines
        if [ -e "$1" ]; then cat "$@" | cut -d' ' -f1 | sort -u; else files_of "$test"; fi | sed "s|^|$test |"
    done <"$cov/tests.recorded" | awk '
        NR == FNR { at[$2] = ++tests; next }
        { executes[$2, at[$1]]; files[$2] }
        END {
            for (file in files) {
                mask = ""
                for (t = 1; t <= tests; t += 4) {
                    digit = 0
                    for (i = 0; i < 4; i++) digit = 2 * digit + ((file, t + i) in executes)
                    mask = mask sprintf("%x", digit)
                }
                print file, mask
            }
        }' "$cov/tests.recorded" - | sort
}

# ---- For other tools

# of_lines FILE FIRST LAST: the runs that execute one of these lines, as TEST RANKS SECONDS with their CPU seconds here;
# FILE . is any
of_lines() {
    set -- "$1" "$2" "$3" "$runs"/*.lines "$runs"/*.seconds
    [ -e "$4" ] || return 0
    awk '
        BEGIN {
            file = ARGV[1]; first = ARGV[2]; last = ARGV[3]
            ARGV[1] = ARGV[2] = ARGV[3] = ""
        }
        FNR == 1 {
            run = FILENAME
            sub(/.*\//, "", run)
            kind = run
            sub(/.*\./, "", kind)
            sub(/\.[a-z]*$/, "", run)
        }
        kind == "seconds" {
            if (!(run in executes)) next
            test = ranks = run
            sub(/=.*/, "", test)
            sub(/-/, "/", test)
            sub(/.*=/, "", ranks)
            print test, ranks, $1
            next
        }
        run in executes || $1 != file && file != "." { next }
        {
            for (i = 2; i <= NF; i++) {
                n = split($i, range, "-")
                if (range[1] <= last && range[n] >= first) executes[run]
            }
        }' "$@"
}

# of_files FILE...: the tests that execute lines of one of these files, by the record
of_files() {
    awk -v files="$*" '
        BEGIN { n = split(files, list, " "); for (i = 1; i <= n; i++) wanted[list[i]] }
        $1 == "test" { name[++tests] = $2; next }
        $1 in wanted {
            for (at = 1; at <= length($2); at++) {
                digit = index("0123456789abcdef", substr($2, at, 1)) - 1
                for (i = 4; i >= 1; i--) {
                    if (digit % 2) print name[4 * at - 4 + i]
                    digit = int(digit / 2)
                }
            }
        }' "$record"
}

# includers FILE: the sources of which the compiler read this file
includers() {
    find "$build/obj" "$build/emu" "$build/tests" "$build/bench" -name '*.d' -exec grep -l -e " $1\( \|\$\)" {} + \
        2>/dev/null | sed -e "s|^$build/||" -e 's|\.d$||' | while read -r made; do
        case $made in
            obj/*) echo "src/${made#obj/}" | sed -e 's|\.o$||' -e '/element/s|\.[a-z0-9_]*$||' -e 's|$|.c|' ;;
            emu/*.o) for name in "src/${made#emu/}" "$made"; do ls "${name%.o}.cu" "${name%.o}.cc" 2>/dev/null || true; done ;;
            tests/*.o | bench/*.o) echo "${made%.o}.c" ;;
            tests/* | bench/*) echo "$made.c" ;;
        esac
    done
}

case ${1:-} in
    --one)
        shift
        one "$@"
        exit
        ;;
    --lines)
        shift
        of_lines "$@"
        exit
        ;;
    --files)
        shift
        of_files "$@"
        exit
        ;;
    --includers)
        includers "$2"
        exit
        ;;
esac
case $build in /*) fail "BUILD must be a folder below this one" ;; esac
# shellcheck disable=SC3045  # not every shell has this limit
ulimit -c 0 2>/dev/null || true
unset MAKEFLAGS MFLAGS
${MAKE:-make} --no-print-directory -s -j"$(nproc)" CUDA=0 BUILD="$cov" SAN=--coverage OPT="-O1 -march=native" all tests benches
mkdir -p "$runs"
chosen "$@" >"$cov/chosen"
# What tests/run.sh sets; the sanitizers' build is none of these tests' business.
if python=$(command -v "${TRINE_PYTHON:-python3}"); then export TRINE_PYTHON="$python"; fi
PATH=$(tests/path.sh "$build" build test):$(dirname "$(command -v gcov)")
export PATH
. tests/environment.sh
xargs -P "${J:-1}" -L 1 -r "$self" "$build" --one <"$cov/chosen"
write_record >"$cov/record"
mv "$cov/record" "$record"
