#!/bin/bash
# What a program prints and cannot write: every program of examples and tools, with --help, --version and what it is for,
# on a full device must end with another status than 0 and one message that names standard output; where the reader of a
# pipe is gone, by SIGPIPE, without a word.
. tests/lib.sh
needs awk perl

model="--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 256 --global-batch-size 4"
small="$model --threads 1 --train-iters 2"
token_file "$data" 20240520 1 641 641
seq 300 >"$dir/text.txt"
check "a checkpoint, a log" "$TRAIN" $small --data-path "$data" --save "$dir/run" --log "$dir/log"

rows="train_gpt $small --data-path $data
train_gpt $small --data-path $data --log-interval 1 --profile
train_gpt $small --data-path $data --save $dir/again --save-interval 1
train_gpt $model --dry-run
train_gpt $model --layouts --ranks 4
train_gpt $model --pp 2 --explain
train_gpt $model --explain layers
own_model $small --data-path $data
own_model $model --dry-run
own_loop --train-iters 1
zero_ladder $small --data-path $data
explain
mesh
column_row
trine-doctor --seconds 0.01
trine-eval $dir/run/step-2 --data $data --threads 1
trine-export $dir/run/step-2 $dir/exported
trine-generate $dir/run/step-2 --prompt A --tokens 3 --threads 1
trine-plan --hardware h100 --ranks 2 $model
trine-prove $model
trine-report $dir/log --out $dir/page.html
trine-report $dir/log --csv
trine-tokenizer --vocab-size 260 --out $dir/vocabulary $dir/text.txt
trine-tokens --out $dir/tokens $dir/text.txt
trine-verify --steps 1 -- $model --data-path $data"
# Programs that take no options (mesh, column_row) run as they are with them.
for program in $(cd "$BUILD" && ls -d trine-* train_gpt own_model own_loop zero_ladder explain); do
    case $program in *.*) continue ;; esac
    rows="$rows
$program --help"
    case $program in own_* | zero_ladder | explain) ;; *) rows="$rows
$program --version" ;; esac
done

tried=0 wrong=0
: >"$dir/walked"
# judged ROW STATUS TEXT...: standard error has lines with each text, or nothing
fault() {
    wrong=$((wrong + 1))
    echo "# $1: status $2: $(tail -n 2 "$dir/err")"
}
while read -r program arguments; do
    tried=$((tried + 1))
    echo "$program" >>"$dir/walked"
    rm -rf "$dir/again" "$dir/exported" "$dir/vocabulary"
    status=0
    # shellcheck disable=SC2086  # words are meant to be split
    timeout -k 5 120 "$BUILD/$program" $arguments >/dev/full 2>"$dir/err" </dev/null || status=$?
    if [ "$status" -eq 0 ] || [ "$status" -ge 124 ] || [ "$(grep -c 'standard output: ' "$dir/err")" -ne 1 ]; then
        fault "$program $arguments" "$status"
    fi
done <<<"$rows"
echo "# $tried commands, $wrong wrong"
[ "$wrong" -eq 0 ]
result $? "a full device is another status than 0, and a message that names standard output"

# coupled wants a partner; under a launcher standard output is the launcher's.
every() {
    for source in examples/*.c tools/*.c; do
        name=$(basename "$source" .c)
        case $source in tools/*) name=$(echo "$name" | tr _ -) ;; esac
        grep -qx "$name" "$dir/walked" || [ "$name" = coupled ] || { echo "$source is not walked" && return 1; }
    done
    grep -q 'ferror(stdout)' examples/coupled.c
}
check "every program of examples and tools" every

cat >"$dir/closed" <<'END'
pipe my $reads, my $writes or die;
close $reads;
open STDOUT, '>&', $writes or die;
close $writes;
$SIG{PIPE} = 'DEFAULT';
exec @ARGV;
END
tried=0 wrong=0
while read -r program arguments; do
    case $program$arguments in trine-doctor--seconds* | own_loop--train* | train_gpt*--profile | train_gpt*--layouts*) continue ;; esac
    tried=$((tried + 1))
    rm -rf "$dir/again" "$dir/exported" "$dir/vocabulary"
    status=0
    # shellcheck disable=SC2086  # words are meant to be split
    timeout -k 5 120 perl "$dir/closed" "$BUILD/$program" $arguments 2>"$dir/err" </dev/null || status=$?
    if [ "$status" -ne 141 ] || [ -s "$dir/err" ]; then fault "$program $arguments" "$status"; fi
done <<<"$rows" 2>"$dir/killed"
echo "# $tried commands, $wrong wrong"
[ "$wrong" -eq 0 ]
result $? "a pipe without a reader is SIGPIPE, without a word"
done_testing
