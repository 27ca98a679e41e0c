#!/bin/bash
# The command trine-tokens: the files that it writes, byte by byte, and what it refuses.
set -eu

tokens=$(cd "${BUILD:-build}" && pwd)/trine-tokens
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
count=0

check() {
    count=$((count + 1))
    local name=$1
    shift
    if "$@" >said 2>&1; then echo "ok $count - $name"; else
        echo "not ok $count - $name"
        sed 's/^/# /' said
    fi
}

# header FILE: the first five of its 256 numbers, on one line
header() {
    od -An -v -td4 -N20 "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

# text_of FILE: the tokens of FILE as bytes, after a look at their high halves
text_of() {
    [ -z "$(tail -c +1025 "$1" | od -An -v -tx1 -w2 | awk '$2 != "00"')" ] || echo "an id above 255"
    tail -c +1025 "$1" | od -An -v -tu1 -w2 | while read -r low _; do
        # shellcheck disable=SC2059  # the format is the byte
        printf "\\$(printf %03o "$low")"
    done
}

# holds FILE TEXT-FILE: a token file of these bytes
holds() {
    local size
    size=$(wc -c <"$2")
    echo "header: $(header "$1"), $(wc -c <"$1") bytes"
    [ "$(header "$1")" = "20240520 1 $size 256 0" ] &&
        [ "$(wc -c <"$1")" = $((1024 + 2 * size)) ] && text_of "$1" | cmp - "$2"
}

# refuses TEXT ARGUMENTS...: exit status 1, the text on standard error, nothing on standard output, and
# no file more or less than before
refuses() {
    local text=$1 status=0 before
    shift
    before=$(files)
    "$tokens" "$@" >../"${tree##*/}.out" 2>../"${tree##*/}.err" </dev/null || status=$?
    local out err
    out=$(cat ../"${tree##*/}.out") err=$(cat ../"${tree##*/}.err")
    rm ../"${tree##*/}.out" ../"${tree##*/}.err"
    echo "status $status, standard output: $out, standard error: $err"
    [ $status = 1 ] && [ -z "$out" ] && [[ $err == *"$text"* ]] && [ "$(files)" = "$before" ]
}

files() {
    find . -type f ! -name said -exec md5sum {} + | sort
}

says() {
    local text=$1
    shift
    local said
    said=$("$@")
    echo "$said"
    [ "$said" = "$text" ]
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

check "says what it wrote" says "a_train.bin: 4500 tokens (4.500 K)
a_val.bin: 500 tokens (500)" "$tokens" --out a bytes.txt
check "every byte is a token, the last tenth for validation" split a most rest
check "nothing else is left" [ "$(find . -name 'a*' | sort | tr '\n' ' ')" = "./a_train.bin ./a_val.bin " ]
check "several files are one text" "$tokens" --val-fraction 0.25 --out=b one.txt two.txt
check "split across them" split b front back
check "the prefix comes from the first file" "$tokens" "$tree/one.txt" two.txt --val-fraction 0.25
check "split there too" split one front back
check "a fraction of 0" "$tokens" --val-fraction 0 --out c one.txt
check "all for training" holds c_train.bin one.txt
check "no validation file" [ ! -e c_val.bin ]
standard_input() {
    cat one.txt two.txt | "$tokens" --val-fraction 0.25 - && split tokens front back
}
check "standard input" standard_input
mixed() {
    "$tokens" --val-fraction 0.25 --out d one.txt - <two.txt && split d front back
}
check "standard input among files" mixed
check "an old output is replaced" "$tokens" --val-fraction 0.25 --out a one.txt two.txt
check "by the new one" split a front back

: >empty
mkdir folder
ln -s e_train.bin link.txt
cp bytes.txt e_train.bin
cp bytes.txt f_val.bin
check "an output that is an input" refuses "./e_train.bin is an input (e_train.bin)" --out ./e e_train.bin
check "the same by a link" refuses "e_train.bin is an input (link.txt)" --out e one.txt link.txt
check "the validation file too" refuses "f_val.bin is an input (f_val.bin)" --out f f_val.bin
check "an empty input" refuses "empty: there is nothing in it" --out g one.txt empty
check "empty standard input" refuses "standard input: there is nothing in it" --out g -
check "a missing input" refuses "nowhere.txt: No such file or directory" --out g one.txt nowhere.txt
check "a folder" refuses "folder: Is a directory" --out g folder
check "no validation byte" refuses "a validation fraction of 0.01 of 7 bytes is less than one byte" \
    --val-fraction 0.01 --out g one.txt
check "no training byte" refuses "a validation fraction of 1 leaves nothing of 7 bytes" \
    --val-fraction 1 --out g one.txt
check "a fraction that is none" refuses "--val-fraction must be a number from 0 to 1, not \"1.5\"" \
    --val-fraction 1.5 --out g one.txt
check "an unknown option" refuses "unknown option --val-fractoin; did you mean --val-fraction?" \
    --val-fractoin 0.2 --out g one.txt
check "no input" refuses "no FILE was named" --out g
check "an output nowhere" refuses "nowhere/g_train.bin.unfinished: No such file or directory" \
    --out nowhere/g one.txt --val-fraction 0.5

helps() {
    "$tokens" "$@" >help 2>help.err && grep -q '^Usage: trine-tokens .*FILE' help &&
        grep -q -- '--val-fraction X .*(default: 0.1)' help && [ ! -s help.err ]
}
check "help" helps --help
check "help in spite of mistakes" helps --wrong --val-fraction 0.3 -h
full() {
    local status=0
    "$tokens" --help >/dev/full 2>help.err || status=$?
    [ $status = 1 ] && grep -q "the output cannot be written: No space left on device" help.err
}
check "standard output that takes nothing" full
# A small limit of a file's size stands for a disk that fills up; nothing is left of the file.
no_room() {
    local status=0
    head -c 100000 /dev/zero | tr '\0' A >long
    (ulimit -f 8 && exec "$tokens" --out limited long) 2>limited.err || status=$?
    cat limited.err
    [ $status = 1 ] && grep -q 'limited_train.bin.unfinished: File too large' limited.err && ! ls limited_*
}
check "a file that does not fit" no_room
echo "1..$count"
