#!/bin/bash
# trine-tokens --tokenizer: formats, folders, compression, the split for validation, shards, and what goes wrong.
set -eu
. tests/lib.sh
needs gzip zstd mkfifo

tokens=$(realpath "$BUILD")/trine-tokens
tiny=$PWD/tests/tokenizer/tiny.json
mkdir "$dir/files"
cd "$dir/files"

# encode ARGUMENTS...
encode() {
    run "$tokens" --tokenizer "$tiny" "$@"
    [ $status = 0 ] || return 1
}

# all ARGUMENTS...: the same, with all tokens in x_train.bin
all() {
    encode --val-fraction 0 --out x "$@"
}

# ids FILE: its tokens on one line
ids() {
    tail -c +1025 "$1" | od -An -v -tu2 | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

# header FILE: magic, version, tokens, vocabulary
header() {
    od -An -v -td4 -N16 "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

count() {
    od -An -td4 -j8 -N4 "$1" | tr -d ' '
}

files() {
    find . -type f -exec md5sum {} + | sort
}

# refuses TEXT ARGUMENTS...: exit status 1, TEXT on standard error, no standard output, and no file added, changed or
# removed
refuses() {
    local text=$1 before
    shift
    before=$(files)
    run "$tokens" --tokenizer "$tiny" "$@" </dev/null
    [ $status = 1 ] && [ ! -s "$dir/out" ] && messages 1 && grep -qF -- "$text" "$dir/err" && [ "$(files)" = "$before" ]
}

# ---- Documents

# The ids are those of Hugging Face's tokenizers for the same file.
printf 'Once the token\303\251<|endoftext|> x\n' >once.txt
once="46 77 66 68 267 259 78 74 396 274 466 220 87 198 466"
text() {
    all once.txt && [ "$(ids x_train.bin)" = "$once" ] && [ "$(header x_train.bin)" = "20240520 1 15 467" ] &&
        [ "$(od -An -tx4 -j16 -N8 x_train.bin | tr -d ' ')" != 0000000000000000 ] && [ ! -e x_val.bin ]
}
check "a text, its end, the vocabulary and the tokenizer's hash" text
# shellcheck disable=SC2016  # JSON
lines() {
    printf '%s\n' '{"text":"a"}' '' '{"n":{"text":"no"},"text":"b\u0000\ud83d\ude00"}' '{"text":""}' \
        '{"text":"\ud83d"}' '{"text":"\ud83d\ud83d\ude00"}' >lines.jsonl
    all lines.jsonl && [ "$(ids x_train.bin)" = "64 466 65 188 270 246 222 466 171 123 121 466 171 123 121 270 246 222 466" ] &&
        prints 1 "4 documents, 17 B of text" && prints 1 "left out: 1 empty documents" &&
        prints 1 "2 sequences of bytes that are not UTF-8 became U+FFFD"
}
check "JSON lines" lines
key() {
    printf '%s\n' '{"content":"a","text":7}' >any.txt
    all --json-key content any.txt && [ "$(ids x_train.bin)" = "64 466" ] &&
        all --json-key content - <any.txt && [ "$(ids x_train.bin)" = "64 466" ]
}
check "another key, in a file of any name and in standard input" key
ends() {
    all --no-end-token once.txt && [ "$(ids x_train.bin)" = "${once% 466}" ] &&
        all --end-token a once.txt && [ "$(ids x_train.bin)" = "${once% 466} 64" ]
}
check "another token at the end, and none" ends
replaced() {
    printf 'a\377\303b' >bytes.txt
    all bytes.txt && [ "$(ids x_train.bin)" = "64 171 123 121 171 123 121 65 466" ] &&
        prints 1 "2 sequences of bytes that are not UTF-8 became U+FFFD"
}
check "bytes that are no UTF-8" replaced
# Of Unicode 15.0, 16.0 and 15.0, with a character of 14.0; the driver says which PCRE2 knows.
newer() {
    local known said="warning: 4 characters of the texts (U+1FAE8, U+10D4A, U+1E030) are newer than the Unicode"
    printf 'a\360\237\253\250 \360\220\265\212 \360\236\200\260 \360\237\253\240 \360\237\253\250' >newer.txt
    known=$("${tokens%/trine-tokens}/tests/tokenizer/driver" - assigned | tail -c +68939 | head -c 1 | od -An -tu1 | tr -d ' ')
    all newer.txt && if [ "$known" = 1 ]; then ! grep -q warning "$dir/err"; else grep -qF -- "$said" "$dir/err"; fi &&
        all once.txt && ! grep -q warning "$dir/err"
}
check "characters that are newer than PCRE2's Unicode" newer
folder() {
    mkdir -p folder/b.d folder/.git
    printf a >folder/a
    printf b | gzip >folder/b.d/z.txt.gz
    printf '{"text":"c"}' | zstd -q >folder/b.jsonl.zst
    printf z >folder/.hidden
    printf z >folder/.git/z.txt
    ln -s ../once.txt folder/c.txt
    ln -s .. folder/d
    # b.d is before b.jsonl: sorted by bytes
    all folder && [ "$(ids x_train.bin)" = "64 466 65 466 66 466 $once" ] && prints 1 "4 documents"
}
check "a folder, in order, without hidden files" folder

# ---- A larger text: some 300 KB in one file, and the same lines as documents

awk 'BEGIN { s = 1; for (i = 0; i < 6000; i++) { line = ""
    for (w = s % 13; w >= 0; w--) { s = (s * 1103515245 + 12345) % 2147483648; line = line substr(" the token of a unit", 1, 2 + s % 17) " " s % 1000 }
    print line } }' >book.txt
sed 's/.*/{"text":"&"}/' book.txt >docs.jsonl
same() {
    cmp a_train.bin b_train.bin && cmp a_val.bin b_val.bin
}
compressed() {
    encode --out a docs.jsonl || return 1
    for how in "gzip -c" "zstd -qc" "zstd -qc --long=27 -3"; do
        $how docs.jsonl >packed.jsonl && encode --out b packed.jsonl && same || return 1
    done
}
check "compressed input, whatever its name" compressed
# Members and frames end in the middle of a line; a frame to be skipped comes first.
several() {
    { head -c 100001 docs.jsonl | gzip; tail -c +100002 docs.jsonl | gzip -1; } >two.jsonl.gz
    { printf '\120\052\115\030\003\000\000\000abc'; head -c 100001 docs.jsonl | zstd -q; tail -c +100002 docs.jsonl | zstd -q; } >two.jsonl.zst
    encode --out b two.jsonl.gz && same && encode --out b two.jsonl.zst && same
}
check "several members, several frames" several
threads() {
    for n in 1 2 5; do encode --out b --threads $n docs.jsonl && same || return 1; done
    # shellcheck disable=SC2002  # a pipe, in pieces
    cat docs.jsonl | encode --json-key text --out b - && same
}
check "any number of threads, and a pipe" threads

# ---- Validation

documents() {
    encode --out a --val-fraction 0.05 docs.jsonl && all docs.jsonl || return 1
    prints 1 "6000 documents" && [ $(($(count a_train.bin) + $(count a_val.bin))) = "$(count x_train.bin)" ] || return 1
    local held
    held=$(ids a_val.bin | tr ' ' '\n' | grep -cx 466)
    [ "$held" -ge 298 ] && [ "$held" -le 302 ] &&
        [ "$(ids a_val.bin | tr ' ' '\n' | tail -n 1)" = 466 ] && [ "$(ids a_train.bin | tr ' ' '\n' | tail -n 1)" = 466 ]
}
check "of documents: whole ones" documents
# The 13th block is the first of a twentieth.
blocks() {
    encode --out a --val-fraction 0.05 book.txt && all book.txt && [ $(($(count a_val.bin) % 1024)) = 0 ] &&
        [ "$(ids a_val.bin | cut -d ' ' -f 1-1024)" = "$(ids x_train.bin | cut -d ' ' -f 12289-13312)" ] &&
        [ "$(ids a_train.bin | cut -d ' ' -f 12289)" = "$(ids x_train.bin | cut -d ' ' -f 13313)" ]
}
check "of one text: blocks of 1024 tokens from everywhere" blocks
chosen() {
    encode --out a --val-split blocks docs.jsonl && [ $(($(count a_val.bin) % 1024)) = 0 ]
}
check "blocks of documents, if told" chosen

# ---- Shards

tokens_of() {
    for file in "$@"; do tail -c +1025 "$file"; done
}
shards() {
    encode --out s --val-fraction 0.1 --shard-tokens 20000 docs.jsonl && encode --out a --val-fraction 0.1 docs.jsonl || return 1
    local full=$(($(count a_train.bin) / 20000))
    [ $full -ge 2 ] && [ "$(count s_train_000000.bin)" = 20000 ] &&
        [ "$(count "$(printf 's_train_%06d.bin' "$full")")" = $(($(count a_train.bin) % 20000)) ] &&
        tokens_of s_train_*.bin | cmp - <(tokens_of a_train.bin) && tokens_of s_val_*.bin | cmp - <(tokens_of a_val.bin)
}
check "shards, in order" shards
check "shards of an earlier run" refuses "s_train_000000.bin is from an earlier run" --out s docs.jsonl
check "numbers beside a file without" refuses "a_train.bin is from an earlier run" --out a --shard-tokens 1000 docs.jsonl

# ---- What goes wrong

check "no such tokenizer" refuses "nowhere" --tokenizer nowhere once.txt
check "an unknown end" refuses "--end-token: $tiny has no token \"<end>\"" --end-token "<end>" once.txt
check "no text" refuses "the inputs have no text" --out e /dev/null
check "a document only" refuses "--val-fraction 0.1 takes none of 1 blocks of 1024 tokens" --out e once.txt
check "too few documents" refuses "--val-fraction 0.1 takes none of 4 documents; use a larger one or --val-split blocks" \
    --out e lines.jsonl
check "no training data" refuses "--val-fraction 1 of 1 blocks of 1024 tokens leaves no training data" --val-fraction 1 --out e once.txt
check "an output that is an input" refuses "x_train.bin is also an input (./x_train.bin)" --out x .
check "an empty folder" refuses "empty: a folder without files" --out e "$(mkdir empty && echo empty)"
check "a missing input" refuses "nowhere.txt: No such file or directory" --out e once.txt nowhere.txt
check "no text but bytes" refuses "zero: not a text: byte 3 is 0" --out e "$(printf 'abc\0' >zero && echo zero)"
printf '{"text":"a"}\n{"text":"b"\n{"text":"c"}\n{"body":"d"}\n' >bad.jsonl
check "a line that is not JSON" refuses "bad.jsonl:2: column 12: expected , or }" --out e bad.jsonl
check "a line without the key" refuses 'bad.jsonl:1: the object has no "body"' --json-key body --out e bad.jsonl
skipped() {
    all --skip-bad bad.jsonl zero once.txt && [ "$(ids x_train.bin)" = "64 466 66 466 $once" ] && prints 1 "left out: 3 JSON lines"
}
check "bad lines and files, left out" skipped
head -c 20000 two.jsonl.gz >cut.gz
head -c 20000 two.jsonl.zst >cut.zst
{ cat two.jsonl.gz; echo more; } >more.gz
{ cat two.jsonl.zst; echo more; } >more.zst
{ head -c 20000 two.jsonl.gz; printf wrong; tail -c +20006 two.jsonl.gz; } >wrong.gz
{ head -c 20000 two.jsonl.zst; printf wrong; tail -c +20006 two.jsonl.zst; } >wrong.zst
check "truncated gzip" refuses "cut.gz: truncated" --json-key text --out e cut.gz
check "truncated zstd" refuses "cut.zst: truncated" --json-key text --out e cut.zst
check "a damaged gzip file" refuses "wrong.gz: damaged gzip data" --json-key text --skip-bad --out e wrong.gz
check "a damaged zstd file" refuses "wrong.zst: damaged Zstandard data" --json-key text --skip-bad --out e wrong.zst
check "bytes behind gzip" refuses "more.gz: damaged gzip data" --json-key text --out e more.gz
check "bytes behind zstd" refuses "more.zst: damaged Zstandard data" --json-key text --out e more.zst
needs_tokenizer() {
    run "$tokens" --out e "$@" once.txt
    [ $status = 1 ] && says 1 "trine: $1 needs --tokenizer"
}
for option in "--end-token a" --no-end-token --no-template "--val-split blocks" "--shard-tokens 1"; do
    # shellcheck disable=SC2086  # an option and its value
    check "${option% *} without a tokenizer" needs_tokenizer $option
done
# The first shards fit.
no_space() {
    mkdir -p small
    run unshare "$mounts" sh -c 'mount -t tmpfs -o size=64k tmpfs small && "$@"; s=$?; ls -A small; exit $s' sh \
        "$tokens" --tokenizer "$tiny" --shard-tokens 5000 --out small/s docs.jsonl
    [ $status = 1 ] && says 1 "No space left on device" && [ ! -s "$dir/out" ]
}
if mounts_at "$dir"; then
    check "a full disk leaves nothing" no_space
else
    skip "a full disk leaves nothing" "no mount namespace is permitted here"
fi

# A run that waits for more input, after some output.
mkfifo pipe
interrupted() {
    local before
    before=$(files)
    background "$tokens" --tokenizer "$tiny" --json-key text --out i pipe
    exec 9>pipe
    for _ in 1 2 3 4 5 6; do cat docs.jsonl >&9; done
    eventually 300 compgen -G ".i_train.bin.*.shard" || return 1
    kill "-$1" "$launcher"
    finish
    exec 9>&-
    [ "$status" = "$2" ] && says 1 "trine: SIG$1: interrupted; no files were written" && [ "$(files)" = "$before" ]
}
check "SIGTERM removes what is unfinished" interrupted TERM 143
check "SIGHUP, too" interrupted HUP 129

# A pipe that nobody opens for writing: with a tokenizer the signal is one that the program handles.
waiting() {
    local before
    before=$(files)
    background "$tokens" "$@" --out i pipe
    eventually 300 reads_pipe && kill -TERM "$launcher"
    finish
    [ "$status" = 143 ] && [ "$(files)" = "$before" ]
}
reads_pipe() {
    # shellcheck disable=SC2010  # links, not names
    ls -l "/proc/$launcher/fd" | grep -q "/pipe$"
}
check "SIGTERM ends the wait for a pipe's writer" waiting --tokenizer "$tiny"
check "SIGTERM ends it without a tokenizer, too" waiting

# A line of 8 MB: the memory is bounded.
long_line() {
    { printf '{"text":"'; for _ in $(seq 25); do tr '\n' ' ' <book.txt; done; printf '"}\n'; } >long.jsonl
    tr -d '{}' <long.jsonl | sed 's/^"text":"//; s/"$//' | tr -d '\n' >long.txt
    # shellcheck disable=SC2016
    run bash -c 'ulimit -v 300000 && exec "$@"' bash "$tokens" --tokenizer "$tiny" --val-fraction 0 --threads 2 --out y long.jsonl
    [ $status = 0 ] && encode --val-fraction 0 --out z long.txt && cmp y_train.bin z_train.bin
}
check "a line of 8 MB is the same as that text" long_line
done_testing
