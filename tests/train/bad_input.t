#!/bin/sh
# What a user gets wrong before the first step: options, layouts, files. One message from the whole
# job, in words that help, a status that is not 0 on every rank, and no file touched.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
precious "$log"

# refused RANKS TEXT ARGUMENTS...: one message, with TEXT
refused() {
    ranks=$1 text=$2
    shift 2
    job "$ranks" --log "$log" "$@"
    messages 1 && says 1 "$text" && ended && untouched "$log"
}

# alone TEXT NAME ARGUMENTS...: the same, as one case, without mpirun
alone() {
    text=$1 name=$2
    shift 2
    refused 0 "$text" "$@"
    result $? "$name"
}

# ---- The command line

refused 2 "unknown option --data-paht; did you mean --data-path?" --data-paht "$data" --zero 4 \
    --schedule 1f1 --gather-buffers 0 --lr && says 1 "trine: 5 mistakes on the command line:" &&
    says 1 '--zero must be 0, 1, 2 or 3, not "4"' &&
    says 1 '--schedule must be naive, gpipe or 1f1b, not "1f1"' && says 1 '--gather-buffers must' &&
    says 1 '--lr needs a value: a number' && says 0 "    at "
result $? "all mistakes of a command line in one message, once"

alone 'unexpected argument "text.bin"' "a file without its option" text.bin
alone "--data-path is missing" "no data"

# ---- Precision

refused 2 "--bf16 and --fp16 are two types, and there can be one" --data-path "$data" --bf16 --fp16 \
    --hidden-dropout 1 --attention-dropout 0.99999999999 --min-loss-scale 8 --initial-loss-scale 4 &&
    says 1 "--hidden-dropout 1 must be in [0, 1)" && says 1 "--attention-dropout 1 must be in [0, 1)" &&
    says 1 "--min-loss-scale 8 is more than --initial-loss-scale 4"
result $? "two types, dropouts of everything and a minimum above the start, in one message"

alone "--grad-dtype bf16 must be fp32 or the type in use, which is fp32" "16-bit gradients of fp32" \
    --data-path "$data" --grad-dtype bf16
alone "--loss-scale is for --fp16" "a loss scale without fp16" --data-path "$data" --bf16 \
    --loss-scale 1024
refused 4 "--sequence-parallel: --tp 4 must divide --micro-batch-size 1 x --seq-length 18" \
    --data-path "$data" --tp 4 --sequence-parallel --seq-length 18
result $? "rows that tp does not divide"

# ---- Layouts

refused 4 "dp 3 x tp 3 x pp 1 = 9, but there are 4 ranks" --data-path "$data" --dp 3 --tp 3 \
    --micro-batch-size 2 --global-batch-size 8 && says 1 "heads 4 must be a multiple of --tp 3" &&
    says 1 "--ffn-hidden-size 128 must be a multiple of --tp 3" &&
    says 1 "8 must be a multiple of --micro-batch-size 2 x dp 3 = 6: 6 or 12 would do" &&
    says 1 "layouts that work on 4 ranks: --dp "
result $? "all faults of a layout in one message"

first=$(sed -n 's/.*layouts that work on 4 ranks: \(--dp [0-9]* --tp [0-9]* --pp [0-9]*\).*/\1/p' "$dir/err")
# shellcheck disable=SC2086  # words are meant to be split
job 4 --data-path "$data" $first --micro-batch-size 2 --global-batch-size 8 --train-iters 1
[ -n "$first" ] && [ "$status" -eq 0 ] && prints 1 "step    1/1 | loss" && messages 0 && gone
result $? "the layout that the message suggests works: $first"

alone "dp 2 x tp 2 x pp 2 needs 8 ranks, and this is one process: start it with mpirun -np 8" \
    "one process where eight are meant" --data-path "$data" --dp 2 --tp 2 --pp 2
says 0 "layouts that work"
result $? "a layout that only lacks its ranks gets no other suggested"
alone "--pp-split e,1,h has 3 stages, --pp has 2" "a split of other stages than --pp" \
    --data-path "$data" --pp 2 --pp-split e,1,h
refused 4 "--pp-split e,1,2,h places 3 layers, the model has 2" --data-path "$data" --pp 4 \
    --pp-split e,1,2,h && says 1 "layouts that work on 4 ranks without --pp-split: --dp 1 --tp 1 --pp 4"
result $? "a split with a layer too many"

# ---- Files

refused 4 "rank 0: $dir/none*.bin: no such file" --data-path "$dir/none*.bin" && says 0 "    at "
result $? "a missing file, from four ranks once"

# Open MPI (4, 5) ends the others when the first rank has ended badly; here each shall say how it ended.
export OMPI_MCA_orte_abort_on_non_zero_status=0 PRTE_MCA_state_base_error_non_zero_exit=0
job 4 --data-path "$dir/none.bin"
messages 1 && gone && [ "$(tr '\n' ' ' <"$dir/statuses")" = "1 1 1 1 " ]
result $? "every rank ends with status 1 of itself"
unset OMPI_MCA_orte_abort_on_non_zero_status PRTE_MCA_state_base_error_non_zero_exit

alone "$dir/none.bin: no such file" "a missing validation file" --data-path "$data" \
    --val-data-path "$dir/none.bin"
alone "$dir: not a regular file" "a folder" --data-path "$dir"

bad() { # bad TEXT NAME: $dir/bad.bin is refused, with its name
    alone "$dir/bad.bin: $1" "$2" --data-path "$dir/bad.bin"
}
: >"$dir/bad.bin"
bad "the file is empty" "an empty file"
le32 20240520 1 >"$dir/bad.bin"
bad "8 bytes are too few for the header of 1024 bytes" "a file shorter than a header"
token_file "$dir/bad.bin" 20240520 1 4096 4000
bad "truncated: 9024 bytes, but the header's 4096 tokens need 9216" "a truncated file"
token_file "$dir/bad.bin" 20240520 1 4000 4096
bad "192 bytes behind the header's 4000 tokens" "a file that goes on"
token_file "$dir/bad.bin" 20240521 1 4096 4096
bad "magic 20240521 is not a token file's (20240520: uint16, 20240801: uint32)" "a wrong magic"
token_file "$dir/bad.bin" 20240520 2 4096 4096
bad "version 2; files of magic 20240520 have version 1" "a wrong version"
token_file "$dir/bad.bin" 20240520 1 16 16
bad "16 tokens are too few for one sample of sequence length 16" "a file without one sample"

refused 2 "--log $dir/none/log: No such file or directory" --data-path "$data" \
    --log "$dir/none/log"
result $? "a log where there is no folder"
cp "$data" "$dir/copy.bin"
ln -s text.bin "$dir/link"
refused 2 "--log $dir/link is a file of the data" --data-path "$data" --log "$dir/link" &&
    cmp -s "$data" "$dir/copy.bin"
result $? "a log that would overwrite the data, by another name"

# ---- Checkpoints

alone "--save-interval is for --save" "what is for --save, without it, in one message" \
    --data-path "$data" --save-interval 5 --keep 2 --max-minutes 3 --load auto --load-weights-only
says 1 "  - --keep is for --save" && says 1 "  - --max-minutes without --save would lose the run" &&
    says 1 "--load auto is the newest checkpoint of --save, which is missing" &&
    says 1 "--load auto goes on with a run, --load-weights-only begins one: name the checkpoint"
result $? "all of it"
alone "--load-weights-only is for --load" "weights of what?" --data-path "$data" --load-weights-only

job 2 --data-path "$data" --save "$dir/saved" --train-iters 2 && [ -d "$dir/saved/step-2" ]
result $? "a checkpoint to go wrong with"
refused 2 "$dir/saved/step-2 is of another model: num-layers is 2 there, 3 here, vocab-size is 256 there, 300 here" \
    --data-path "$data" --num-layers 3 --vocab-size 300 --load "$dir/saved"
result $? "another model, by name and with both numbers, once"
refused 2 "--save $dir/saved has a step-2, and this run begins at step 0: --load auto goes on from there" \
    --data-path "$data" --save "$dir/saved"
result $? "a new run into the folder of an old one"
refused 2 "$dir/none" --data-path "$data" --load "$dir/none"
result $? "a checkpoint that is not there"
refused 2 "$dir/text.bin: cannot make the folder: Not a directory" --data-path "$data" --save "$dir/text.bin/x"
result $? "a folder that cannot be made, before the first step"

done_testing
