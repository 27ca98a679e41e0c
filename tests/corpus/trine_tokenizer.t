#!/bin/bash
# trine-tokenizer: the folder that it writes, whatever the threads and the inputs' form, and what goes wrong.
set -eu
. tests/lib.sh
needs gzip zstd perl

build=$(realpath "$BUILD")
text=$(realpath include/trine.h)
mkdir "$dir/files"
cd "$dir/files"

# train FOLDER ARGUMENTS...
train() {
    local folder=$1
    shift
    run "$build/trine-tokenizer" --out "$folder" "$@"
    [ $status = 0 ] || return 1
}

# same FOLDER FOLDER...: the files of all are those of the first
same() {
    local first=$1 folder
    shift
    for folder in "$@"; do
        cmp "$first/tokenizer.json" "$folder/tokenizer.json" && cmp "$first/tokenizer_config.json" "$folder/tokenizer_config.json" || return 1
    done
}

files() {
    find . -exec ls -d {} + -type f -exec md5sum {} + | sort
}

# refuses TEXT ARGUMENTS...: exit status 1, TEXT on standard error, no standard output, and no file or folder added
refuses() {
    local text=$1 before
    shift
    before=$(files)
    run "$build/trine-tokenizer" "$@" </dev/null
    [ $status = 1 ] && [ ! -s "$dir/out" ] && grep -qF -- "$text" "$dir/err" && [ "$(files)" = "$before" ]
}

# ---- The folder

wrote() {
    train one --vocab-size 1000 --threads 1 "$text" && [ "$(ls -A one | tr '\n' ' ')" = "tokenizer.json tokenizer_config.json " ] &&
        grep -q "^one/tokenizer.json: 1000 tokens: 1 special, 256 bytes, 743 merges; the last one's pair occurs [0-9]* times$" "$dir/out" &&
        grep -q "^1 document, .* words, .* different ones; counted in .*, merged in " "$dir/out" && [ ! -s "$dir/err" ]
}
check "a folder with two files, and what was learned" wrote
threads() {
    for n in 2 3; do train "threads$n" --vocab-size 1000 --threads $n "$text" || return 1; done
    same one threads2 threads3
}
check "equal bytes with two threads, and three" threads
forms() {
    cp "$text" text && gzip -c text >text.gz && zstd -qc text >text.zst && mkdir folder && cp text folder/a &&
        perl -0777 -pe 's/([\\"])/\\$1/g; s/\n/\\n/g; s/\t/\\t/g; $_ = "{\"body\":\"$_\"}\n"' text >text.jsonl &&
        train gzip --vocab-size 1000 text.gz && train zstd --vocab-size 1000 text.zst && train walked --vocab-size 1000 folder &&
        train piped --vocab-size 1000 - <text && train json --vocab-size 1000 --json-key body text.jsonl && same one gzip zstd walked piped json
}
check "compressed, a folder, standard input, JSON lines: the same tokenizer" forms
used() {
    "$build/trine-tokens" --tokenizer one --out tokens "$text" >said && [ "$(od -An -td4 -j12 -N4 tokens_train.bin | tr -d ' ')" = 1000 ] &&
        tokens=$(sed -n 's/.*; \([0-9.]*\) bytes a token.*/\1/p' said) && echo "$tokens bytes a token" && awk "BEGIN { exit !($tokens > 2.5) }"
}
check "trine-tokens encodes with it, several bytes a token" used
special() {
    printf 'a<s>b a b a b<s>a b a b' >marked && train special --vocab-size 300 --special '<s>' --special '<pad>' --split llama3 marked &&
        grep -q '"eos_token":.*"<s>"' special/tokenizer_config.json && grep -q '"<pad>":.*1,$' special/tokenizer.json &&
        grep -q '"!":.*2,$' special/tokenizer.json && grep -q 'p{N}{1,3}' special/tokenizer.json &&
        grep -q "260 tokens: 2 special, 256 bytes, 2 merges; the last one's pair occurs 3 times" "$dir/out"
}
check "special tokens, the first ids, and Llama 3's words" special
few() {
    grep -qF "warning: --vocab-size 300: the vocabulary has 260 tokens, as no other two neighbouring tokens occur --min-frequency 2 times" "$dir/err" &&
        train few --vocab-size 300 --min-frequency 5 marked && grep -q "257 tokens: 1 special, 256 bytes, 0 merges$" "$dir/out" &&
        grep -qF "has 257 tokens, as no other two neighbouring tokens occur --min-frequency 5 times" "$dir/err"
}
check "fewer tokens than asked for: a warning" few
again() {
    cp -r one old && train old --vocab-size 300 "$text" && ! cmp -s one/tokenizer.json old/tokenizer.json && grep -q "300 tokens" "$dir/out" &&
        [ "$(ls -A old | wc -l)" = 2 ]
}
check "an earlier tokenizer is replaced" again
left_out() {
    printf '{"text":"ab"}\n{}\n{"text":""}\n{"text":"a\\u0062"}\n' >lines.jsonl && train lines --vocab-size 258 --skip-bad lines.jsonl &&
        grep -q "left out: 1 JSON lines without a text" "$dir/out" && grep -q "left out: 1 empty documents" "$dir/out" && grep -q "^2 documents, " "$dir/out"
}
check "bad lines are left out and counted on request" left_out

# ---- What goes wrong

printf '{"text":"a"}\n{"text":1}\n' >bad.jsonl
printf 'a\0b' >zero
mkdir model
: >model/config.json
: >empty
check "a vocabulary without room for bytes" refuses "--vocab-size 256: must be at least 257: 256 bytes and 1 special token" --vocab-size 256 --out x text
check "and for special tokens" refuses "--vocab-size 257: must be at least 258: 256 bytes and 2 special tokens" --vocab-size 257 --special a1 --special b1 --out x text
check "a special token twice" refuses '--special "<s>" is given twice, as special tokens 1 and 3' --special "<s>" --special b1 --special "<s>" --out x text
check "a special token that is a byte" refuses '--special "a": that is how a tokenizer.json writes the byte 97' --special a --out x text
check "no folder" refuses "--out FOLDER is missing" text
check "no file" refuses "no FILE given" --out x
check "a file that is not there" refuses "none: No such file or directory" --out x none
check "a folder inside none" refuses "none/x: No such file or directory" --out none/x text
check "a file in the folder's place" refuses "text/tokenizer" --out text empty
check "a model's folder" refuses "--out model is the folder of a model" --out model text
check "no text" refuses "the inputs have no text" --out x empty
check "a line without a text, by its number" refuses "bad.jsonl:2: column 9: the text is not a string" --out x bad.jsonl
check "no text but bytes" refuses "zero: not a text: byte 1 is 0; --skip-bad" --out x zero
check "its own output as input" refuses "a file of argument one/tokenizer.json, which is in use and would be lost" --out one one/tokenizer.json
check "an unknown split" refuses "--split" --split gpt3 --out x text
done_testing
