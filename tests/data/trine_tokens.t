#!/bin/bash
# trine-tokens: the files that it writes, byte by byte, and invalid input.
set -eu
. tests/lib.sh
needs gzip zstd perl

tokens=$(realpath "$BUILD")/trine-tokens
tree=$dir/files
mkdir "$tree"
cd "$tree"

# header FILE: the first five of its 256 numbers, on one line
header() {
    od -An -v -td4 -N20 "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

# text_of FILE: the tokens of FILE as bytes
text_of() {
    perl -0777 -ne 'print $_ < 256 ? chr : "an id above 255" for unpack "v*", substr $_, 1024' "$1"
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

# The inputs are read as with a tokenizer: decompressed, JSON lines decoded, folders walked.
check "an empty input is left out" writes "c_train.bin: 7 tokens (7)
left out: 1 empty documents" "$tokens" --val-fraction 0 --out c /dev/null one.txt
read_as_text() {
    gzip -c bytes.txt >bytes.gz && zstd -qc bytes.txt >bytes.log && head -c 2000 bytes.txt | gzip >two.gz && tail -c +2001 bytes.txt | gzip >>two.gz
    for file in bytes.gz bytes.log two.gz; do "$tokens" --out z "$file" && split z most rest || return 1; done
    "$tokens" --val-fraction 0 bytes.txt.gz 2>&1 | grep -q "No such file" && cp bytes.gz bytes.txt.gz &&
        "$tokens" bytes.txt.gz && split bytes most rest && "$tokens" --out z - <bytes.gz && split z most rest
}
check "compressed by gzip or zstd, whatever the name" read_as_text
json() {
    printf '%s\n' '{"text":"a\u00e9"}' '' '{"body":"no","text":"b\nc\u0000"}' '{"text":""}' >lines.jsonl
    printf 'a\303\251\nb\nc\0\n' >lines.want
    "$tokens" --val-fraction 0 --out y lines.jsonl >said && holds y_train.bin lines.want && grep -q "left out: 1 empty" said &&
        zstd -qc lines.jsonl >lines.ndjson && "$tokens" --val-fraction 0 --out y lines.ndjson && holds y_train.bin lines.want &&
        sed 's/text/body/g' lines.jsonl | "$tokens" --json-key body --skip-bad --threads 3 --val-fraction 0 --out y - &&
        printf 'a\303\251\n' >lines.want && grep -c . lines.want && "$tokens" --skip-bad --val-fraction 0 --out y lines.jsonl
}
check "JSON lines: the texts, a line feed after each" json
walked() {
    mkdir -p tree/b && cp one.txt tree/a && cp two.txt tree/b/two.txt && "$tokens" --val-fraction 0.25 --out z tree && split z front back
}
check "a folder's files" walked
# More than one part, in which a byte may be anything.
long() {
    for _ in $(seq 500); do cat bytes.txt; done >large && head -c 2250000 large >large.most && tail -c 250000 large >large.rest &&
        "$tokens" --threads 3 --out z large && cmp <(tail -c +1025 z_val.bin | od -An -v -tu2 -w2) <(od -An -v -tu1 -w1 large.rest | sed 's/^ */ /' | awk '{ printf "%6d\n", $1 }') &&
        [ "$(header z_train.bin)" = "20240520 1 2250000 256 0" ]
}
check "a text of several parts" long

: >empty
mkdir folder
ln -s e_train.bin link.txt
cp bytes.txt e_train.bin
cp bytes.txt f_val.bin
check "the training file is an input" refuses "--out ./e_train.bin: the same file as argument e_train.bin" --out ./e e_train.bin
check "the same through a link" refuses "--out e_train.bin: the same file as argument link.txt" --out e one.txt link.txt
check "the validation file is an input" refuses "--out f_val.bin: the same file as argument f_val.bin" --out f f_val.bin
mkdir texts others
cp bytes.txt texts/x_train.bin
cp bytes.txt others/x_val.bin
check "the training file is in a folder that is an input" refuses "texts/x_train.bin is also an input" --out texts/x texts
check "the validation file is in a folder that is an input" refuses "others/x_val.bin is also an input" --out others/x others
check "empty inputs" refuses "the inputs have no text" --out g empty empty
check "empty standard input" refuses "the inputs have no text" --out g -
check "a missing input" refuses "nowhere.txt: No such file or directory" --out g one.txt nowhere.txt
check "a folder" refuses "folder: a folder without files" --out g folder
# other NAME BYTES: a file of another format
other() {
    printf "$2" >"other.$1" && head -c 50 bytes.txt >>"other.$1"
    refuses "other.$1: is a $1 file, not a text" --out g "other.$1"
}
check "xz" other xz '\3757zXZ\0'
check "bzip2" other bzip2 'BZh91AY&SY'
check "lz4" other lz4 '\004\042\115\030'
check "zip" other zip 'PK\003\004'
check "7z" other 7z '7z\274\257\047\034'
check "Parquet" other Parquet PAR1
printf 'BZh is no bzip2 file' >bzh
check "a text that begins like one" "$tokens" --val-fraction 0 --out begins bzh
check "a damaged gzip file" refuses "cut.gz: truncated" --out g "$(head -c 100 bytes.gz >cut.gz && echo cut.gz)"
check "a line that is no JSON" refuses "bad.jsonl:2: column 1: " --out g "$(printf '{"text":"a"}\nb\n' >bad.jsonl && echo bad.jsonl)"
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
        tr -s '\n ' ' ' <"$dir/out" | grep -q -- '--val-fraction X .*(default: 0.1)' &&
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
