#!/bin/sh
# Mistakes found before the first step: options, layouts, files. The job prints one helpful message, exits with a
# nonzero status on every rank, and changes no file.
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
    --gather-buffers 0 --schedule 1f1 --lr && says 1 "trine: 5 errors on the command line:" &&
    says 1 '--zero: invalid value "4"; expected 0, 1, 2 or 3' &&
    says 1 '--gather-buffers: invalid value' &&
    says 1 '--schedule: invalid value "1f1"; expected naive, gpipe, 1f1b, interleaved, zb, zbv, v-half, bfs or a file' &&
    says 1 '--lr requires a value: a number' && says 0 "    at "
result $? "all command-line mistakes in one message, printed once"

alone 'unexpected argument "text.bin"' "a file name without an option" text.bin
alone "--data-path is required" "no data"
alone "unknown option --bach-size; did you mean --batch-size, which is --global-batch-size?" "an option that is near an alias has its own name too" --bach-size 4
alone "--load $dir/absent: No such file or directory" "a checkpoint that is not there, where nothing would be loaded" --dry-run --load "$dir/absent" --finetune --dp 2
alone "--adapter $dir/absent: No such file or directory" "adapters that are not there" --dry-run --load "$dir" --adapter "$dir/absent"

# ---- Precision

refused 2 "--hidden-dropout: invalid value \"1\"; expected a number that is in [0, 1) in fp32" --data-path "$data" \
    --hidden-dropout 1 --attention-dropout 0.99999999999 --min-loss-scale 0 --reduce-buffers 30001 &&
    says 1 "--attention-dropout: invalid value \"0.99999999999\"; expected a number that is in [0, 1) in fp32" &&
    says 1 "--min-loss-scale: invalid value \"0\"; expected a number that is greater than 0 in fp32" &&
    says 1 "--reduce-buffers: invalid value \"30001\"; expected an integer from 1 to 30000"
result $? "numbers outside of their ranges, in one message"
refused 2 "--bf16 and --fp16 are mutually exclusive" --data-path "$data" --bf16 --fp16 --min-loss-scale 8 \
    --initial-loss-scale 4 && says 1 "--min-loss-scale 8: must be at most --initial-loss-scale 4"
result $? "two types and a minimum scale above the initial one, in one message"

alone "--grad-dtype bf16: must be fp32 or the compute type (fp32)" "16-bit gradients of fp32" \
    --data-path "$data" --grad-dtype bf16
alone "--loss-scale requires --fp16" "a loss scale without fp16" --data-path "$data" --bf16 \
    --loss-scale 1024
refused 4 "--sequence-parallel: --tp 4 must divide --micro-batch-size 1 x --seq-length 18" \
    --data-path "$data" --tp 4 --sequence-parallel --seq-length 18
result $? "--sequence-parallel: rows not divisible by tp"

# Any processor without AVX-512; the library's own variable makes this one into one.
ONEDNN_MAX_CPU_ISA=SSE41
export ONEDNN_MAX_CPU_ISA
refused 2 "has no brgemm with the instructions of this processor (sse41) for y = x w^T, T 16, N 96, K 32, fp32 to fp32" \
    --data-path "$data" --exact-threads --dp 2 --train-iters 0
result $? "--exact-threads: products that the library cannot multiply exactly"
unset ONEDNN_MAX_CPU_ISA

# ---- Layouts

refused 4 "dp 3 x tp 3 x pp 1 = 9, but there are 4 ranks" --data-path "$data" --dp 3 --tp 3 \
    --micro-batch-size 2 --global-batch-size 8 && says 1 "--tp 3: must divide --num-attention-heads 4 and --ffn-hidden-size 128" &&
    says 1 "8: must be a multiple of --micro-batch-size 2 x dp 3 = 6; use 6 or 12" &&
    says 1 "valid layouts for 4 ranks: --dp "
result $? "all layout errors in one message"

first=$(sed -n 's/.*valid layouts for 4 ranks: \(--dp [0-9]* --tp [0-9]* --pp [0-9]*\).*/\1/p' "$dir/err")
# shellcheck disable=SC2086  # words are meant to be split
job 4 --data-path "$data" $first --micro-batch-size 2 --global-batch-size 8 --train-iters 1
[ -n "$first" ] && [ "$status" -eq 0 ] && prints 1 "step    1/1 | loss" && messages 0 && gone
result $? "the layout suggested in the message works: $first"

alone "dp 2 x tp 2 x pp 2 needs 8 ranks, but only one process was started; use mpirun -np 8" \
    "one process for a layout of eight ranks" --data-path "$data" --dp 2 --tp 2 --pp 2
says 0 "valid layouts"
result $? "no other layout is suggested if only ranks are missing"
alone "--pp-split e,1,h: 3 stages, but --pp is 2" "a split of other stages than --pp" \
    --data-path "$data" --pp 2 --pp-split e,1,h
refused 4 "--pp-split e,1,2,h: 3 layers, but the model has 2" --data-path "$data" --pp 4 \
    --pp-split e,1,2,h && says 1 "valid layouts for 4 ranks without --pp-split: --dp 1 --tp 1 --pp 4"
result $? "--pp-split with one layer too many"

# ---- Files

refused 4 "rank 0: --data-path $dir/none*.bin: no such file" --data-path "$dir/none*.bin" && says 0 "    at "
result $? "a missing file is reported once by four ranks"

# Open MPI (4, 5) kills the other ranks when one exits with a failure; here each rank reports its own status.
export OMPI_MCA_orte_abort_on_non_zero_status=0 PRTE_MCA_state_base_error_non_zero_exit=0
job 4 --data-path "$dir/none.bin"
messages 1 && gone && [ "$(tr '\n' ' ' <"$dir/statuses")" = "1 1 1 1 " ]
result $? "every rank exits with status 1 by itself"
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
bad "too short for a token file: 8 bytes, the header alone has 1024" "a file shorter than a header"
token_file "$dir/bad.bin" 20240520 1 4096 4000
bad "truncated: 9024 bytes, but the header's 4096 tokens need 9216" "a truncated file"
token_file "$dir/bad.bin" 20240520 1 4000 4096
bad "192 unexpected bytes after the header's 4000 tokens" "trailing bytes after the tokens"
token_file "$dir/bad.bin" 20240521 1 4096 4096
bad "not a token file: magic 20240521 (valid: 20240520 for uint16, 20240801 for uint32)" "wrong magic"
token_file "$dir/bad.bin" 20240520 2 4096 4096
bad "unsupported version 2; files with magic 20240520 have version 1" "wrong version"
token_file "$dir/bad.bin" 20240520 1 16 16
bad "16 tokens are too few; one sample of sequence length 16 needs 17" "a file shorter than one sample"

refused 2 "--log $dir/none/log: No such file or directory" --data-path "$data" \
    --log "$dir/none/log"
result $? "a log in a missing folder"
cp "$data" "$dir/copy.bin"
ln -s text.bin "$dir/link"
refused 2 "--log $dir/link: the same file as --data-path $data, which is read" --data-path "$data" --log "$dir/link" &&
    cmp -s "$data" "$dir/copy.bin"
result $? "a log that is a link to the data"

# ---- Checkpoints

alone "--save-interval requires --save" "options that require --save, without it" \
    --data-path "$data" --save-interval 5 --keep 2 --max-minutes 3 --load auto --load-weights-only
says 1 "  - --keep requires --save" && says 1 "  - --max-minutes requires --save; the run would be lost" &&
    says 1 "--load auto requires --save" &&
    says 1 "--load auto resumes a run, --load-weights-only starts a new one; give the checkpoint's path"
result $? "all of them in one message"
alone "--pretrained-checkpoint requires --load auto; without it, use --load PATH --finetune" "--pretrained-checkpoint without --load auto" \
    --data-path "$data" --pretrained-checkpoint "$dir/any" --load "$dir/any"
alone "--load-weights-only requires --load" "--load-weights-only without --load" --data-path "$data" --load-weights-only

job 2 --data-path "$data" --save "$dir/saved" --train-iters 2 && [ -d "$dir/saved/step-2" ]
result $? "a checkpoint for the next cases"
refused 2 "$dir/saved/step-2 holds a different model: num-layers is 2 there, 3 here, vocab-size is 256 there, 300 here" \
    --data-path "$data" --num-layers 3 --vocab-size 300 --load "$dir/saved"
result $? "another model: one message with names and both values"
refused 2 "--save $dir/saved: already has step-2, but this run starts at step 0; resume with --load auto" \
    --data-path "$data" --save "$dir/saved"
result $? "a new run in the checkpoint folder of an old one"
refused 2 "$dir/none" --data-path "$data" --load "$dir/none"
result $? "a missing checkpoint"
refused 2 "$dir/text.bin: cannot create the folder: Not a directory" --data-path "$data" --save "$dir/text.bin/x"
result $? "a checkpoint folder that cannot be created is reported before the first step"

done_testing
