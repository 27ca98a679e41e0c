#!/bin/sh
# Mutation tests: plants each fault of tests/mutants/list in a copy of the tree, builds the test that the
# list names, and expects its case to fail. Prints a line for each fault with the case that caught it, and
# exits 1 unless all were caught. Usage: tools/mutants.sh BUILD [NAME...]
# J=4: so many faults beside each other (default: one a core, at most 8), each in a copy of the tree of its own.
# AGAINST="FOLDER/NAME RANKS CASE": this case in place of the list's.
# TARGETS="build/PROGRAM...": what a script among the tests needs (default: all programs and tests).
# TEXTS=1: only check that each text to find is in its file.
# MATRIX=1: run each fault against the tests of make check that execute its line (tools/coverage.sh), first the list's
# case, then the tests, the list's first, then those that have caught most of this file's faults for their CPU seconds,
# until two tests have failed (MATRIX_FAILURES) or five minutes are over (MATRIX_SECONDS); write tests/mutants/matrix.
# What the matrix has of a fault whose text has not changed since is not repeated: the tests that caught it count, and it
# is run only if they are fewer, and neither have all tests been run nor is its time no longer than what was over before.
# Those without a line come first. MATRIX_MINUTES=55: none is begun after that many. So an interrupted run goes on where
# it was, in slices. MATRIX=left lists what is left.
#
# Errors: a text to find that is missing from its file or occurs more than once; a mutant that does not
# compile; a case that fails without a mutant. A mutant that makes ranks hang is caught when the library's
# watchdog aborts the job (tests/harness.c: 60 seconds); one that runs into the limit of this script
# (MUTANT_SECONDS) survives.
set -eu
cd "$(dirname "$(realpath "$0")")/.."

build=$1
shift
list=tests/mutants/list
matrix=tests/mutants/matrix
work=$build/mutants
alone=${MUTANT_SECONDS:-150}
limit=$alone
mode=${MATRIX:-} enough=${MATRIX_FAILURES:-2} seconds=${MATRIX_SECONDS:-300} minutes=${MATRIX_MINUTES:-9999}
against=${AGAINST:-} given=${TARGETS:-} texts=${TEXTS:-}
cores=$(nproc)
jobs=${J:-$((cores > 8 ? 8 : cores))}
unset MUTANT_SECONDS MATRIX MATRIX_FAILURES MATRIX_SECONDS MATRIX_MINUTES AGAINST TARGETS TEXTS J # a test may run this script
# A worker's folder, and its tree: built once, then file by file. What a mutant's build replaces is put back.
own=$work/1 tree=$work/1/tree
job='' # the process that runs

fail() {
    echo "tools/mutants.sh: $*" >&2
    exit 1
}

# ---- The list

# Makes a folder for each mutant of the list, with a file for each field. Prints the mutants' names.
read_list() {
    rm -rf "$work/list"
    mkdir -p "$work/list"
    awk -v to="$work/list" '/^mutant / && NF == 2 { print to "/" $2 }' "$list" | sort -u | xargs -r mkdir
    awk -v to="$work/list" '
        function bad(why) {
            print FILENAME ":" FNR ": " why >"/dev/stderr"
            exit 1
        }
        /^#/ || /^ *$/ { text = ""; next }
        text != "" && /^    / { print substr($0, 5) >text; next }
        { text = "" }
        $1 == "mutant" && NF == 2 {
            close(here "/find")
            close(here "/put")
            here = to "/" $2
            if ($2 in names) bad("duplicate mutant " $2)
            names[$2]
            print $2
            next
        }
        (here, $1) in given { bad("a second \"" $1 "\"") }
        { given[here, $1] }
        ($1 == "find" || $1 == "put") && NF == 1 {
            text = here "/" $1
            printf "" >text
            next
        }
        $1 == "breaks" || $1 == "file" || $1 == "test" {
            place = here "/" $1
            sub(/^[a-z]+ +/, "")
            print >place
            close(place)
            next
        }
        { bad("invalid line \"" $0 "\"") }
    ' "$list"
}

# field NAME FIELD
field() {
    [ "$2" != test ] || [ -z "$against" ] || { echo "$against" && return; }
    cat "$work/list/$1/$2" || fail "mutant $1: no field \"$2\""
}

# mutate NAME: prints its file with the fault
mutate() {
    awk '
        function slurp(file,    line, text, lines) {
            while ((getline line <file) > 0) text = text (lines++ ? "\n" : "") line
            return text
        }
        BEGIN {
            text = slurp(ARGV[1])
            old = slurp(ARGV[2])
            at = index(text, old)
            if (old == "" || !at || index(substr(text, at + 1), old)) exit 1
            print substr(text, 1, at - 1) slurp(ARGV[3]) substr(text, at + length(old))
        }
    ' "$(field "$1" file)" "$work/list/$1/find" "$work/list/$1/put"
}

# check_texts NAME...: what mutate looks for, of all of them in one process
check_texts() {
    wrong=$(printf '%s\n' "$@" | awk -v list="$work/list" '
        function slurp(file,    line, text, lines) {
            while ((getline line <file) > 0) text = text (lines++ ? "\n" : "") line
            close(file)
            return text
        }
        {
            file = slurp(list "/" $1 "/file")
            old = slurp(list "/" $1 "/find")
            if (!(file in texts)) texts[file] = slurp(file)
            at = index(texts[file], old)
            if (old == "" || !at || index(substr(texts[file], at + 1), old)) printf " %s", $1
        }')
    [ -z "$wrong" ] || fail "text to find is missing from the file or occurs more than once:$wrong"
}

# ---- Trees

sources() {
    git ls-files -co --exclude-standard | while read -r file; do
        if [ -f "$file" ]; then echo "$file"; fi
    done
}

# Writes only files that differ; they are then newer than anything built from a mutant.
update_tree() {
    sources | while read -r file; do
        if cmp -s "$file" "$tree/$file"; then continue; fi
        mkdir -p "$tree/$(dirname "$file")"
        cp -p "$file" "$tree/$file"
        touch "$tree/$file"
    done
    (cd "$tree" && find . -path ./build -prune -o -type f -print) | while read -r file; do
        [ -f "$file" ] || rm "$tree/$file"
    done
}

# The first tree starts with what is built already; make builds anew what is older than its source, and everything
# if its flags are others.
new_tree() {
    mkdir -p "$tree"
    sources | xargs cp -p --parents -t "$tree"
    if [ "$build" != build ] || [ ! -e build/flags ]; then return 0; fi
    rm -rf "$own/copied"
    mkdir "$own/copied"
    for part in build/*; do
        if [ -d "$part" ]; then
            case $part in build/obj | build/tests | build/bench | build/emu) ;; *) continue ;; esac
        fi
        cp -pr "$part" "$own/copied/"
    done
    mv "$own/copied" "$tree/build"
}

# compile TARGET...: warnings are not errors here, since mutants leave things unused
compile() {
    ${MAKE:-make} -C "$tree" --no-print-directory -s -j"$cores" BUILD=build CUDA=0 WERROR= "$@" \
        >"$own/compiled" 2>&1
}

# named SCRIPT: the programs in build/ that stand in it or in what it sources; all for one that builds, that runs other
# scripts or the commands of a page, or whose names of tests are variables
named() {
    case $1 in build/* | docs/* | bench/* | mpi/*) echo all tests && return ;; esac
    if grep -q 'BUILD/tests/[a-z/]*\$' "tests/$1.t"; then echo all tests && return; fi
    if grep -q -e emu -e cuda "tests/$1.t"; then echo build/emu/libtrine_cuda.so build/emu/libnccl_emu.so; fi
    # shellcheck disable=SC2012,SC2046  # names have no spaces
    ls examples/*.c tools/*.c tests/*/*.c $(grep -l '^int main' bench/*.c) |
        sed '/^tools/s,_,-,g; s,^examples/\|^tools/,build/,; s,^[tb]e,build/&,; s,\.c$,,' | awk '
        FILENAME != "-" {
            n = split($0, words, /[^A-Za-z0-9_\/-]+/)
            for (i = 1; i <= n; i++) for (word = words[i]; word != ""; word = substr(word, at + 1)) {
                said[word]
                if (!(at = index(word, "/"))) break
            }
            next
        }
        { name = $0; sub(/^build\//, "", name) }
        name in said' "tests/$1.t" $(grep -ho 'tests/[a-z_/]*\.sh' "tests/$1.t" | sort -u) -
}

# program TEST RANKS: what its run needs
program() {
    case $2 in
        -) echo "${given:-$(named "$1")}" ;;
        *) echo "build/tests/$1" ;;
    esac
}

# The trees of workers 1 to $jobs, with the programs of all tests of the list: NAME...
prepare() {
    rm -f "$work/stop"
    rm -rf "$work/taken" "$work/passed"
    mkdir -p "$work/taken" "$work/passed"
    targets='all tests'
    if [ -z "$mode" ]; then
        targets=$(for name in "$@"; do
            field "$name" test
        done | while read -r test ranks case; do program "$test" "$ranks"; done | sort -u)
    fi
    worker=1
    while [ $worker -le "$jobs" ]; do
        enter $worker
        if [ ! -d "$own" ] && [ $worker -gt 1 ]; then
            rm -rf "$work/copied"
            cp -a "$work/1" "$work/copied"
            mv "$work/copied" "$own"
        else
            if [ -d "$tree/build" ]; then update_tree; else new_tree; fi
            # shellcheck disable=SC2086  # names have no spaces
            compile $targets || {
                cat "$own/compiled"
                fail "the unchanged tree does not compile"
            }
            rm -rf "$own/clean"
            if [ -d "$tree/build" ]; then cp -al "$tree/build" "$own/clean"; fi
        fi
        worker=$((worker + 1))
    done
}

# enter WORKER
enter() {
    own=$work/$1 tree=$work/$1/tree
}

# plant NAME: compilers and linkers write new files, so the links in clean keep the old ones.
plant() {
    planted=$(field "$1" file)
    mutate "$1" >"$own/mutated"
    mv "$tree/$planted" "$own/kept"
    cp "$own/mutated" "$tree/$planted"
    chmod --reference="$own/kept" "$tree/$planted" # a script stays executable
    touch "$own/planted"
}

uproot() {
    mv "$own/kept" "$tree/$planted"
    (cd "$tree/build" && find . -newer "$here$own/planted" -type f) | while read -r file; do
        rm "$tree/build/$file"
        if [ -e "$own/clean/$file" ]; then ln "$own/clean/$file" "$tree/build/$file"; fi
    done
}

# ---- Tests

# As tests/run.sh and its wrappers do.
environment() {
    . tests/environment.sh
    export BUILD=build
    seen=$(tests/path.sh "$build" build test) # by tests; what is compiled takes the caller's
}

# run TEST RANKS [CASE]: its output goes to $own/said. RANKS is - for a script.
run() {
    rm -rf "$own/tmp"
    mkdir "$own/tmp"
    if [ -n "${3:-}" ]; then set -- "$1" "$2" env "TRINE_CASE=$3"; else set -- "$1" "$2"; fi
    test=$1 ranks=$2
    shift 2
    case $ranks in
        -) set -- "$@" "tests/$test.t" ;;
        0) set -- "$@" "build/tests/$test" ;;
        *) set -- "$@" tools/mpirun.sh -np "$ranks" "build/tests/$test" ;;
    esac
    (cd "$tree" && PATH=$seen OMPI_MCA_orte_tmpdir_base=$here$own/tmp exec timeout -k 10 "$limit" "$@") \
        >"$own/said" 2>&1 </dev/null & # mpirun would read the caller's input
    job=$!
    status=0
    wait $job || status=$?
    job=
    return $status
}

# passes TEST RANKS CASE: each case of the list must pass in the unchanged tree.
passes() {
    mkdir "$work/passed/$(echo "$*" | tr '/ ' '--')" 2>/dev/null || return 0
    if run "$1" "$2" "$3" && grep -q "^ok [0-9]* - $3\$" "$own/said"; then return 0; fi
    rmdir "$work/passed/$(echo "$*" | tr '/ ' '--')"
    cat "$own/said"
    fail "$1 on $2 ranks: $3 fails on the unchanged tree"
}

# The first line of the output that tells what failed.
message() {
    grep -v -e '^1\.\.' -e '^ok ' -e '^# ' -e '^$' "$own/said" | head -n 1 | cut -c1-120
}

# compile_test NAME TEST RANKS: what the test needs, with the fault
compile_test() {
    # shellcheck disable=SC2046  # split into targets
    if compile $(program "$2" "$3"); then return 0; fi
    cat "$own/compiled"
    fail "mutant $1 does not compile"
}

# try NAME: 0 if its test fails as it should.
try() {
    field "$1" test >"$own/test"
    read -r test ranks case <"$own/test"
    passes "$test" "$ranks" "$case"
    plant "$1"
    compile_test "$1" "$test" "$ranks"
    caught=0
    run "$test" "$ranks" "$case" || caught=$?
    uproot
    where="$test np=$ranks $case"
    case $caught in
        0) echo "SURVIVED  $1: $where passes; $(field "$1" breaks)" ;;
        124 | 137) echo "SURVIVED  $1: $where runs into the limit of $limit s; $(field "$1" breaks)" ;;
        *)
            printf 'caught    %-26s %s\n          %s\n' "$1" "$where" "$(message)"
            return 0
            ;;
    esac
    return 1
}

# ---- The matrix

# sum NAME: of the fault
sum() {
    cat "$work/list/$1/file" "$work/list/$1/find" "$work/list/$1/put" | cksum | cut -d' ' -f1
}

# place NAME: the first and last line of its text
place() {
    awk '
        FNR == NR { old = old (FNR > 1 ? "\n" : "") $0; lines = FNR; next }
        { text = text $0 "\n" }
        END {
            first = split(substr(text, 1, index(text, old)), before, "\n")
            print first, first + lines - 1
        }
    ' "$work/list/$1/find" "$(field "$1" file)"
}

# recorded FILE: the runs of the tests that execute the file by tests/coverage, or what includes it, with each test's
# seconds there
recorded() {
    [ -e tests/coverage ] || return 0
    # shellcheck disable=SC2046  # split into files
    tools/coverage.sh "$build" --files "$1" $(tools/coverage.sh "$tree/build" --includers "$1") | sort -u | awk '
        FILENAME == "-" { executes[$1]; next }
        FILENAME != runs { if ($1 == "test") seconds[$2] = $3; next }
        $1 in executes { print $1, $2, seconds[$1] }' runs="$work/runs" - tests/coverage "$work/runs"
}

# executing FILE FIRST LAST: the runs of make check that execute one of these lines, TEST RANKS SECONDS. If none does
# (a table, a line that goes on), or make coverage has not been run here, those that execute the file, or what includes
# it; if none does, all.
executing() {
    found=$(tools/coverage.sh "$build" --lines "$1" "$2" "$3")
    [ -n "$found" ] || found=$(tools/coverage.sh "$build" --lines "$1" 1 999999)
    [ -n "$found" ] || found=$(recorded "$1")
    [ -n "$found" ] || found=$(awk 'NF != 3 || $1 == "test" { seconds[$2] = $3; next } { print $1, $2, seconds[$1] }' \
        "$([ -e tests/coverage ] && echo tests/coverage || echo /dev/null)" "$work/runs")
    echo "$found"
}

# likely: FILE TEST SHARE, and FOLDER TEST SHARE: of the faults there that the matrix has, those that the test has caught
likely() {
    (cd "$work/list" && grep . ./*/file) | sed 's|^./\(.*\)/file:|\1 |' | awk '
        FILENAME == "-" { file[$1] = folder[$1] = $2; sub(/\/[^\/]*$/, "", folder[$1]); next }
        NF < 5 || !($1 in file) { next }
        {
            of[file[$1]]++; of[folder[$1]]++
            for (i = 5; i <= NF; i++) {
                test = $i
                sub(/:.*/, "", test)
                caught[file[$1] " " test]++; caught[folder[$1] " " test]++
            }
        }
        END { for (pair in caught) { split(pair, word, " "); print pair, caught[pair] / of[word[1]] } }' - "$matrix"
}

# candidates NAME: TEST RANKS of the runs to make: the list's, then by CPU seconds for what a test has caught before of
# this file's faults (1), of its folder's (1/4), and a little
candidates() {
    read -r test ranks case <"$work/list/$1/test"
    source=$(field "$1" file)
    # shellcheck disable=SC2046  # two numbers
    executing "$source" $(place "$1") | awk -v source="$source" -v folder="${source%/*}" '
        FILENAME ~ /likely$/ { if ($1 == source) share[$2] += $3; else if ($1 == folder) share[$2] += $3 / 4; next }
        { print $1, $2, ($3 + 0.3) / (share[$1] + 0.02) }' "$work/likely" - |
        { echo "$test $ranks -1" && cat; } | sort -k3,3g |
        awk 'NR == FNR { checked[$1, $2]; next } ($1, $2) in checked && !seen[$1, $2]++ { print $1, $2 }' "$work/runs" -
}

# known TEST RANKS: the file that says whether it passes in the unchanged tree
known() {
    echo "$work/passed/$(echo "$*" | tr '/ ' '--')"
}

sound() {
    known=$(known "$1" "$2")
    if [ ! -e "$known" ]; then
        limit=1800 # not a fault of it, on a busy machine
        # shellcheck disable=SC2046  # split into targets
        if compile $(program "$@") && run "$1" "$2"; then echo yes >"$known"; else echo no >"$known"; fi
        if grep -q no "$known"; then echo "$1 on $2 ranks fails on the unchanged tree; what it says does not count"; fi
    fi
    grep -q yes "$known"
}

# own_case NAME: whether the case that the list names fails, by itself: then so does its run
own_case() {
    read -r test ranks case <"$work/list/$1/test"
    compile_test "$1" "$test" "$ranks"
    status=0
    run "$test" "$ranks" "$case" || status=$?
    case $status in 0 | 124 | 137) return 1 ;; esac
    caught=" $test:$ranks" count=1
}

# before NAME: the runs that caught this fault before, if make check has them still
before() {
    grep "^$1 $(sum "$1") " "$matrix" | cut -s -d ' ' -f 5- | tr ' ' '\n' | while IFS=: read -r test ranks; do
        if grep -q "^$test $ranks " "$work/runs"; then printf ' %s' "$test:$ranks"; fi
    done
}

# explore NAME: a line of the matrix: name, sum, why it ended (enough, all, time and its seconds), runs that passed, runs
# that failed
explore() {
    read -r test ranks case <"$work/list/$1/test"
    unchanged='' limit=1800 # not a fault of it, on a busy machine
    caught=$(before "$1")
    if [ -n "$caught" ]; then
        : # nor is the list's case repeated
    elif [ "$ranks" != - ] || grep -q TRINE_CASE "tests/$test.t"; then # other scripts run all cases anyhow
        if (passes "$test" "$ranks" "$case"); then unchanged=passes; fi
    fi
    candidates "$1" >"$own/candidates"
    plant "$1"
    began=$(date +%s) limit=$alone passed=0 failed='' count=$(echo "$caught" | wc -w) end=all
    [ -z "$unchanged" ] || own_case "$1" || true
    while read -r test ranks; do
        case "$caught$failed " in *" $test:"*) continue ;; esac
        if grep -qs no "$(known "$test" "$ranks")"; then continue; fi
        if [ $count = "$enough" ]; then end=enough; break; fi
        limit=$((seconds + began - $(date +%s)))
        if [ "$caught$failed$passed" = 0 ] && [ $limit -lt "$alone" ]; then limit=$alone; fi # the list's own
        if [ $limit -le 0 ]; then end="time$seconds"; break; fi
        compile_test "$1" "$test" "$ranks"
        status=0
        run "$test" "$ranks" || status=$?
        case $status in
            0) passed=$((passed + 1)) ;;
            124 | 137) end="time$seconds"; break ;;
            *) failed="$failed $test:$ranks" count=$((count + 1)) ;;
        esac
    done <"$own/candidates"
    uproot
    for run in $failed; do
        if sound "${run%:*}" "${run##*:}"; then caught="$caught $run"; fi
    done
    echo "$1 $(sum "$1") $end $passed$caught" | tee -a "$matrix"
}

# unexplored NAME...: those that are not in the matrix, or with another text; then those that too few tests have caught,
# where there was not enough to do or not enough time, those of scripts, which need all programs, last
unexplored() {
    for name in "$@"; do echo "$name $(sum "$name")"; done |
        awk -v enough="$enough" -v seconds="$seconds" '
            FILENAME != "-" { line[$1, $2] = $0; script[$1] = $5 ~ /:-$/; next }
            !(($1, $2) in line) { print $1; next }
            {
                n = split(line[$1, $2], field, " ")
                longest = field[3] ~ /^time/ ? substr(field[3], 5) : field[3] == "all" ? seconds : 0
                if (n - 4 >= enough || longest + 0 >= seconds) next
                if (script[$1]) late = late $1 "\n"; else fewer = fewer $1 "\n"
            }
            END { printf "%s%s", fewer, late }
        ' "$matrix" -
}

# In the order of names, the last line of each; those of mutants that are no longer in the list are dropped.
tidy() {
    awk -v list="$*" '
        BEGIN { n = split(list, names, " "); for (i = 1; i <= n; i++) known[names[i]] }
        /^#/ { print; next }
        $1 in known { line[$1] = $0 }
        END { for (name in line) print line[name] | "sort" }
    ' "$matrix" >"$work/matrix"
    cp "$work/matrix" "$matrix"
}

# ---- Workers

# worker NUMBER NAME...: tries those that no other worker has taken
worker() {
    enter "$1"
    shift
    trap '[ -z "$job" ] || kill $job; exit 130' INT TERM
    trap 'ended $?' EXIT
    for name in "$@"; do
        if [ -e "$work/stop" ] || [ "$(date +%s)" -ge "$until" ]; then return 0; fi
        mkdir "$work/taken/$name" 2>/dev/null || continue
        if [ -n "$mode" ]; then
            explore "$name"
        else
            try "$name" || echo "$name" >>"$work/survivors"
        fi
    done
}

# ended STATUS: the others stop if this worker had to
ended() {
    [ "$1" = 0 ] || touch "$work/stop"
    exit "$1"
}

# all NAME...: exits with 1 if a worker had to stop
all() {
    : >"$work/survivors"
    prepare "$@"
    workers='' number=1
    trap 'touch "$work/stop"; kill $workers' INT TERM
    while [ $number -le "$jobs" ]; do
        (worker $number "$@") &
        workers="$workers $!"
        number=$((number + 1))
    done
    stopped=0
    for pid in $workers; do wait "$pid" || stopped=1; done
    [ $stopped = 0 ] || exit 1
}

[ -e "$list" ] || fail "$list not found; run this from the root of the repository"
case $build in /*) here='' ;; *) here=$PWD/ ;; esac
# shellcheck disable=SC3045  # not every shell has this limit
ulimit -c 0 2>/dev/null || true
unset MAKEFLAGS MFLAGS
environment
every=$(read_list)
names=${*:-$every}
until=$(($(date +%s) + minutes * 60))
# shellcheck disable=SC2086  # names have no spaces
check_texts $names
[ -z "$texts" ] || exit 0
if [ -n "$mode" ]; then
    export TRINE_FIRST_FAILURE=1 CMOCKA_TEST_ABORT=1 # whether a test fails is all that is asked
    tests/sizes.sh >"$work/runs"
    likely >"$work/likely"
    # shellcheck disable=SC2086
    names=$(unexplored $names)
    if [ "$mode" = left ]; then
        printf '%s' "${names:+$names
}"
        exit 0
    fi
    trap 'tidy $every' EXIT
    [ -n "$names" ] || exit 0
fi
count=$(echo "$names" | wc -w)
if [ "$jobs" -gt "$count" ]; then jobs=$count; fi
# shellcheck disable=SC2086
all $names
[ -z "$mode" ] || exit 0
survivors=$(wc -l <"$work/survivors")
echo "$count faults planted, $survivors survived"
[ "$survivors" = 0 ]
