#!/bin/sh
# Mutation tests: plants each fault of tests/mutants/list in a copy of the tree, builds the test that the
# list names, and expects its case to fail. Prints a line for each fault with the case that caught it, and
# exits 1 unless all were caught. Usage: tools/mutants.sh BUILD [NAME...]
# TEXTS=1: only check that each text to find is in its file.
#
# Errors: a text to find that is missing from its file or occurs more than once; a mutant that does not
# compile; a case that fails without a mutant. A mutant that makes ranks hang is caught when the library's
# watchdog aborts the job (tests/harness.c: 60 seconds); one that runs into the limit of this script
# (MUTANT_SECONDS) survives.
set -eu

build=$1
shift
list=tests/mutants/list
work=$build/mutants
tree=$work/tree # built once, then file by file: a mutant changes one file, and its removal changes it back
limit=${MUTANT_SECONDS:-150}

fail() {
    echo "tools/mutants.sh: $*" >&2
    exit 1
}

# Writes only files that differ; they are then newer than anything built from a mutant.
copy_tree() {
    mkdir -p "$tree"
    git ls-files -co --exclude-standard | while read -r file; do
        if [ ! -f "$file" ] || cmp -s "$file" "$tree/$file"; then continue; fi
        mkdir -p "$tree/$(dirname "$file")"
        cp -p "$file" "$tree/$file"
        touch "$tree/$file"
    done
    (cd "$tree" && find . -path ./build -prune -o -type f -print) | while read -r file; do
        [ -f "$file" ] || rm "$tree/$file"
    done
}

# Makes a folder for each mutant of the list, with a file for each field. Prints the mutants' names.
read_list() {
    rm -rf "$work/list"
    mkdir -p "$work/list"
    awk -v to="$work/list" '
        function bad(why) {
            print FILENAME ":" FNR ": " why >"/dev/stderr"
            exit 1
        }
        /^#/ || /^ *$/ { text = ""; next }
        text != "" && /^    / { print substr($0, 5) >text; next }
        { text = "" }
        $1 == "mutant" && NF == 2 {
            here = to "/" $2
            if (system("mkdir " here)) bad("duplicate mutant " $2)
            print $2
            next
        }
        ($1 == "find" || $1 == "put") && NF == 1 {
            text = here "/" $1
            printf "" >text
            next
        }
        $1 == "breaks" || $1 == "file" || $1 == "test" {
            place = here "/" $1
            sub(/^[a-z]+ +/, "")
            print >place
            next
        }
        { bad("invalid line \"" $0 "\"") }
    ' "$list"
}

# field NAME FIELD
field() {
    cat "$work/list/$1/$2" || fail "mutant $1: no field \"$2\""
}

# mutate NAME: writes its file with the fault to $work/mutated.
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
    ' "$(field "$1" file)" "$work/list/$1/find" "$work/list/$1/put" >"$work/mutated"
}

check_texts() {
    wrong=
    for name in "$@"; do mutate "$name" || wrong="$wrong $name"; done
    [ -z "$wrong" ] || fail "text to find is missing from the file or occurs more than once:$wrong"
}

plant() {
    mutate "$1"
    cp "$work/mutated" "$tree/$(field "$1" file)"
}

uproot() {
    cp "$(field "$1" file)" "$tree/$(field "$1" file)"
}

# compile FOLDER/NAME...: the tests' programs. Warnings are not errors here: mutants leave things unused.
compile() {
    for test in "$@"; do set -- "$@" "build/tests/$test"; shift; done
    ${MAKE:-make} -C "$tree" --no-print-directory -s -j"$(nproc)" BUILD=build WERROR= "$@" \
        >"$work/compiled" 2>&1
}

# run FOLDER/NAME RANKS CASE: its output goes to $work/said.
run() {
    status=0
    (cd "$tree" && TRINE_CASE=$3 timeout -k 10 "$limit" "build/t/$(echo "$1" | tr / -)-np$2.t") \
        >"$work/said" 2>&1 </dev/null || status=$? # mpirun would read the caller's input
    return $status
}

# The unchanged tree: its tests are built together, and each case of the list must pass.
check_baseline() {
    (cd "$tree" && tests/plan.sh build full >/dev/null)
    # shellcheck disable=SC2046  # one argument a test
    compile $(for name in "$@"; do field "$name" test; done | cut -d' ' -f1 | sort -u) || {
        cat "$work/compiled"
        fail "the unchanged tree does not compile"
    }
    for name in "$@"; do field "$name" test; done | sort -u | while read -r test ranks case; do
        if run "$test" "$ranks" "$case" && grep -q "^ok 1 - $case\$" "$work/said"; then continue; fi
        cat "$work/said"
        fail "$test on $ranks ranks: $case fails on the unchanged tree"
    done
}

# The first line of the output that tells what failed.
message() {
    grep -v -e '^1\.\.' -e '^ok ' -e '^# ' -e '^$' "$work/said" | head -n 1 | cut -c1-120
}

# try NAME: 0 if its test fails as it should.
try() {
    field "$1" test >"$work/test"
    read -r test ranks case <"$work/test"
    plant "$1"
    compile "$test" || {
        cat "$work/compiled"
        fail "mutant $1 does not compile"
    }
    caught=0
    run "$test" "$ranks" "$case" || caught=$?
    uproot "$1"
    where="$test np=$ranks $case"
    case $caught in
        0) echo "SURVIVED  $1: $where passes; $(field "$1" breaks)" ;;
        124 | 137) echo "SURVIVED  $1: $where runs into the limit of $limit s; $(field "$1" breaks)" ;;
        *) printf 'caught    %-26s %s\n          %s\n' "$1" "$where" "$(message)" ;;
    esac
    [ $caught != 0 ] && [ $caught != 124 ] && [ $caught != 137 ]
}

[ -e "$list" ] || fail "$list not found; run this from the root of the repository"
# shellcheck disable=SC3045  # not every shell has this limit
ulimit -c 0 2>/dev/null || true
unset MAKEFLAGS MFLAGS
names=$(read_list)
if [ $# -gt 0 ]; then names=$*; fi
# shellcheck disable=SC2086  # names have no spaces
check_texts $names
[ -z "${TEXTS:-}" ] || exit 0
copy_tree
# shellcheck disable=SC2086
check_baseline $names
survivors=0
for name in $names; do
    try "$name" || survivors=$((survivors + 1))
done
echo "$(echo "$names" | wc -w) faults planted, $survivors survived"
[ $survivors = 0 ]
