#!/bin/bash
# trine-tokens: the files that it writes, byte by byte, and invalid input.
set -eu
. tests/lib.sh

tokens=$(realpath "$BUILD")/trine-tokens
tree=$dir/files
mkdir "$tree"
cd "$tree"

# header FILE: the first five of its 256 numbers, on one line
header() {
    od -An -v -td4 -N20 "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

# text_of FILE: the tokens of FILE as bytes; checks that their high bytes are 0
text_of() {
    [ -z "$(tail -c +1025 "$1" | od -An -v -tx1 -w2 | awk '$2 != "00"')" ] || echo "an id above 255"
    tail -c +1025 "$1" | od -An -v -tu1 -w2 | while read -r low _; do
        # shellcheck disable=SC2059  # the format is the byte
        printf "\\$(printf %03o "$low")"
    done
}

# holds FILE TEXT-FILE: FILE has the bytes of TEXT-FILE as its tokens
holds() {
    local size
    size=$(wc -c <"$2")
    echo "header: $(header "$1"), $(wc -c <"$1") bytes"
    [ "$(header "$1")" = "20240520 1 $size 256 0" ] &&
        [ "$(wc -c <"$1")" = $((1024 + 2 * size)) ] && text_of "$1" | cmp - "$2"
}

# refuses TEXT ARGUMENTS...: exit status 1, TEXT on standard error, no standard output, and no file added or
# removed
refuses() {
    local text=$1 before
    shift
    before=$(files)
    run "$tokens" "$@" </dev/null
    [ $status = 1 ] && [ ! -s "$dir/out" ] && grep -qF -- "$text" "$dir/err" && [ "$(files)" = "$before" ]
}

files() {
    find . -type f -exec md5sum {} + | sort
}

writes() {
    local text=$1
    shift
    run "$@"
    [ "$(cat "$dir/out")" = "$text" ]
}

split() {
    holds "$1_train.bin" "$2" && holds "$1_val.bin" "$3"
}

LC_ALL=C awk 'BEGIN { for (i = 0; i < 5000; i++) printf "%c", i * 7 % 256 }' >bytes.txt
head -c 4500 bytes.txt >most
tail -c 500 bytes.txt >rest
printf 'one two' >one.txt
printf 'three' >two.txt
printf 'one twoth' >front && printf 'ree' >back

check "reports what it wrote" writes "a_train.bin: 4500 tokens (4.500 K)
a_val.bin: 500 tokens (500)" "$tokens" --out a bytes.txt
check "every byte is a token, the last tenth for validation" split a most rest
check "no other files are left" [ "$(find . -name 'a*' | sort | tr '\n' ' ')" = "./a_train.bin ./a_val.bin " ]
check "several files are concatenated" "$tokens" --val-fraction 0.25 --out=b one.txt two.txt
check "the split is across files" split b front back
check "the prefix comes from the first file" "$tokens" "$tree/one.txt" two.txt --val-fraction 0.25
check "the split with that prefix" split one front back
check "a fraction of 0" "$tokens" --val-fraction 0 --out c one.txt
check "all tokens are for training" holds c_train.bin one.txt
check "no validation file" [ ! -e c_val.bin ]
standard_input() {
    cat one.txt two.txt | "$tokens" --val-fraction 0.25 - && split tokens front back
}
check "standard input" standard_input
mixed() {
    "$tokens" --val-fraction 0.25 --out d one.txt - <two.txt && split d front back
}
check "standard input between files" mixed
check "an old output is replaced" "$tokens" --val-fraction 0.25 --out a one.txt two.txt
check "with the new tokens" split a front back

: >empty
mkdir folder
ln -s e_train.bin link.txt
cp bytes.txt e_train.bin
cp bytes.txt f_val.bin
check "the training file is an input" refuses "./e_train.bin is also an input (e_train.bin)" --out ./e e_train.bin
check "the same through a link" refuses "e_train.bin is also an input (link.txt)" --out e one.txt link.txt
check "the validation file is an input" refuses "f_val.bin is also an input (f_val.bin)" --out f f_val.bin
check "an empty input" refuses "empty: no data" --out g one.txt empty
check "empty standard input" refuses "standard input: no data" --out g -
check "a missing input" refuses "nowhere.txt: No such file or directory" --out g one.txt nowhere.txt
check "a folder" refuses "folder: Is a directory" --out g folder
check "too few bytes for validation" refuses "--val-fraction 0.01 of 7 bytes is less than one byte" \
    --val-fraction 0.01 --out g one.txt
check "no bytes for training" refuses "--val-fraction 1 of 7 bytes leaves no training data" \
    --val-fraction 1 --out g one.txt
check "an invalid fraction" refuses "--val-fraction: invalid value \"1.5\"; expected a number from 0 to 1" \
    --val-fraction 1.5 --out g one.txt
check "an unknown option" refuses "unknown option --val-fractoin; did you mean --val-fraction?" \
    --val-fractoin 0.2 --out g one.txt
check "no input" refuses "no FILE given" --out g
check "an output in a missing folder" refuses "--out nowhere/g: No such file or directory (creating the lock nowhere/.g.trine-lock)" \
    --out nowhere/g one.txt --val-fraction 0.5

helps() {
    run "$tokens" "$@"
    grep -q '^Usage: trine-tokens .*FILE' "$dir/out" &&
        tr -s '\n ' ' ' <"$dir/out" | grep -q -- '--val-fraction X [^-]*(default: 0.1)' &&
        [ ! -s "$dir/err" ]
}
check "help" helps --help
check "help despite invalid arguments" helps --wrong --val-fraction 0.3 -h
full() {
    run sh -c '"$0" --help >/dev/full' "$tokens"
    disk_full
}
check "standard output to a full disk" full
# A small file size limit simulates a full disk; the file is removed.
no_space() {
    head -c 100000 /dev/zero | tr '\0' A >long
    run sh -c 'ulimit -f 8 && exec "$0" --out limited long' "$tokens"
    [ $status = 1 ] && says 1 'limited_train.bin: File too large' && ! ls limited_*
}
check "a file that exceeds the disk" no_space
done_testing
