#!/bin/sh
# Blends of token files on the command line: what is refused, the same training on every layout and after a resume,
# epochs that are printed, and token files of other programs.
. tests/lib.sh

# numbered FILE FIRST COUNT: COUNT uint16 tokens from FIRST on, modulo 251, without a header
numbered() {
    perl -e 'print pack "v*", map { ($_ * $_ + 3 * $_) % 251 } $ARGV[0] .. $ARGV[0] + $ARGV[1] - 1' "$2" "$3" >"$1"
}

# with_header FILE RAW: the same as a token file of llm.c
with_header() {
    {
        le32 20240520 1 $(($(wc -c <"$2") / 2)) 256
        head -c 1008 /dev/zero
        cat "$2"
    } >"$1"
}

# with_index FILE RAW: the same as a dataset of Megatron-LM with one sequence
with_index() {
    cp "$2" "$1.bin"
    perl -e 'print "MMIDIDX\0\0", pack("Q<CQ<Q<l<q<q<q<", 1, 8, 1, 2, $ARGV[0], 0, 0, 1)' $(($(wc -c <"$2") / 2)) \
        >"$1.idx"
}

mkdir "$dir/with blank"
for part in 0 1 2; do
    numbered "$dir/raw_$part" $((900 * part)) 801
    with_header "$dir/a_$part.bin" "$dir/raw_$part"
done
with_header "$dir/with blank/b.bin" "$dir/raw_2"
with_index "$dir/m" "$dir/raw_2"

# says_once TEXT ARGUMENTS...: a training without mpirun fails with TEXT
says_once() {
    text=$1
    shift
    job 0 "$@"
    messages 1 && says 1 "$text" && ended
}

# ---- The command line

says_once '--data-path: invalid weight "3"; expected one FILE, or weights, each followed by its files' \
    --data-path "$dir/a_0.bin" 3 "$dir/a_1.bin"
result $? "a weight behind a file without one"
says_once "--data-path: no file follows the weight 3" --data-path 1 "$dir/a_0.bin" 3
result $? "a weight without a file"
says_once '--val-data-path: invalid weight "0"' --data-path "$dir/a_0.bin" --val-data-path 0 x 1 y
result $? "a weight of 0"
says_once "none.bin: no such file" --data-path 1 "$dir/a_0.bin" 1 "$dir/none.bin"
result $? "a source that is not there"

printf '\001' | dd of="$dir/a_1.bin" bs=1 seek=16 conv=notrunc status=none
printf '\002' | dd of="$dir/a_2.bin" bs=1 seek=20 conv=notrunc status=none
says_once "a_1.bin and $dir/a_2.bin were made by different tokenizers (0000000000000001, 0000000200000000)" \
    --data-path "$dir/a_*.bin"
result $? "files of two tokenizers"
with_header "$dir/a_1.bin" "$dir/raw_1"
with_header "$dir/a_2.bin" "$dir/raw_2"

# ---- One training

# like FIRST SECOND: the losses of two logs agree up to rounding, and there are some
like() {
    perl -MJSON::PP -e '
        my @logs = map { open my $in, "<", $_ or die; [map { decode_json($_)->{loss} } <$in>] } @ARGV;
        my ($one, $two) = @logs;
        exit 1 if !@$one || @$one != @$two;
        for my $i (0 .. $#$one) { exit 1 if abs($one->[$i] - $two->[$i]) > 1e-5 * $one->[$i] }' "$1" "$2"
}

# blended RANKS LOG ARGUMENTS...
blended() {
    ranks=$1 to=$2
    shift 2
    job "$ranks" --train-iters 30 --lr-decay-iters 30 --global-batch-size 8 --log "$dir/$to" \
        --data-path 0.6 "$dir/a_[01].bin" 0.4 "$dir/with blank/b.bin" "$@"
}

blended 0 one.jsonl && prints 1 "data     0.6 $dir/a_[01].bin: 1.602 K tokens, 1.44 epochs in 30 steps" &&
    prints 1 "         0.4 $dir/with blank/b.bin: 801 tokens, 1.92 epochs in 30 steps"
result $? "every source with its epochs in the banner"
prints 1 "step   16/30 | 0.4 $dir/with blank/b.bin: 1 epoch done" &&
    prints 1 "step   21/30 | 0.6 $dir/a_[01].bin: 1 epoch done" && prints 2 "epoch done"
result $? "epochs are said when they end"

blended 2 dp.jsonl --dp 2 --micro-batch-size 2 && like "$dir/one.jsonl" "$dir/dp.jsonl" &&
    blended 2 pp.jsonl --pp 2 --micro-batch-size 4 && like "$dir/one.jsonl" "$dir/pp.jsonl"
result $? "the same losses on other layouts"

blended 0 first.jsonl --train-iters 13 --save "$dir/run" &&
    blended 2 first.jsonl --dp 2 --load "$dir/run" && like "$dir/one.jsonl" "$dir/first.jsonl" &&
    prints 0 "training data differ"
result $? "the same losses after a resume with other ranks"

job 0 --train-iters 14 --global-batch-size 8 --load "$dir/run" --data-path 0.61 "$dir/a_[01].bin" 0.39 \
    "$dir/with blank/b.bin" && prints 1 "training data differ: 2403 tokens in 3 files"
result $? "a resume with other weights is said"

job 0 --train-iters 30 --global-batch-size 8 --log "$dir/string.jsonl" \
    --data-path "3 $dir/a_[01].bin 2 $dir/with\\ blank/b.bin" && like "$dir/one.jsonl" "$dir/string.jsonl"
result $? "the same blend as one word, with other weights of the same proportions"

job 0 --train-iters 30 --global-batch-size 8 --log "$dir/shell.jsonl" --data-path 0.6 "$dir"/a_[01].bin 0.4 \
    "$dir/with blank/b.bin" && like "$dir/one.jsonl" "$dir/shell.jsonl" &&
    prints 1 "data     0.6 $dir/a_0.bin ... $dir/a_1.bin: 1.602 K tokens"
result $? "a pattern that the shell expanded is the same source"

# ---- Other programs' files

job 0 --train-iters 30 --global-batch-size 8 --log "$dir/foreign.jsonl" --data-path 0.6 "nanogpt:$dir/raw_[01]" 0.4 \
    "$dir/m" && like "$dir/one.jsonl" "$dir/foreign.jsonl"
result $? "files of nanoGPT and Megatron-LM give the same training"

truncate -s -2 "$dir/m.bin"
says_once "m.idx: sequence 0 ends at byte 1602, but the .bin file has 1600" --data-path "$dir/m.bin"
result $? "a dataset that does not fit its index"

blended 2 val.jsonl --dp 2 --train-iters 1 --eval-iters 2 --val-data-path 1 "$dir/a_0.bin" 1 "$dir/a_1.bin" &&
    prints 2 "validation loss"
result $? "a validation on a blend"

done_testing
