#!/bin/bash
# trine-export: exports of a run's checkpoints, training from an export, and invalid arguments.
set -eu
. tests/lib.sh

build=$(realpath "$BUILD")
root=$PWD
mkdir "$dir/files"
cd "$dir/files"

# train ARGUMENTS...: a small run, in bf16 if the processor has it
if has_bf16; then type=--bf16; else type=; fi
train() {
    # shellcheck disable=SC2086  # empty or one argument
    "$build/train_gpt" --data-path text_train.bin --num-layers 2 --hidden-size 32 \
        --num-attention-heads 4 --seq-length 16 --vocab-size 256 --threads 1 --train-iters 2 --lr-decay-style constant \
        --val-data-path text_val.bin --eval-iters 1 $type "$@"
}

"$build/trine-tokens" --out text "$root/include/trine.h" >/dev/null

# val_loss FILE head|tail: the first or last validation loss of a log
val_loss() {
    sed -n 's/.*"val_loss": *\([0-9.]*\).*/\1/p' "$1" | "$2" -n 1
}

exported() {
    train --save run --save-interval 1 --log first.json && "$build/trine-export" run gpt >out &&
        grep -q '^gpt: run/step-2, for transformers' out && [ "$(ls gpt)" = "$(printf 'config.json\nmodel.safetensors')" ]
}
check "the newest checkpoint of a run is exported" exported

# A checkpoint is a Hugging Face folder itself, but its weights may have 16 bits, while an export has the masters.
as_it_is() {
    sed 's/"torch_dtype":.*/"torch_dtype"/' gpt/config.json >a && sed 's/"torch_dtype":.*/"torch_dtype"/' run/step-2/config.json >b &&
        cmp a b && { [ -n "$type" ] || cmp gpt/config.json run/step-2/config.json; } && rm a b
}
check "a checkpoint has the config.json of an export" as_it_is

# The first validation is before the first step: its loss is that of the loaded weights.
again() {
    train --load gpt --log second.json && last=$(val_loss first.json tail) && [ -n "$last" ] &&
        [ "$(val_loss second.json head)" = "$last" ]
}
check "a run from the export starts at the old run's validation loss" again

# Masters are fp32 whatever the precision of the run; nothing else of the run is exported.
same() {
    grep -q '"torch_dtype":[[:space:]]*"float32"' gpt/config.json && "$build/trine-export" run/step-2 one &&
        "$build/trine-export" gpt two && cmp gpt/model.safetensors one/model.safetensors &&
        cmp gpt/model.safetensors two/model.safetensors && cmp gpt/config.json two/config.json &&
        ! "$build/trine-export" run/step-1 three | grep -q skipped &&
        ! cmp -s gpt/model.safetensors three/model.safetensors
}
check "equal weights give equal files" same

# With rotary positions a sequence may be shorter than the folder's, but not longer: a window may be the reason.
sequences() {
    train --family mistral --save rotary && "$build/trine-export" rotary mistral >out &&
        train --load mistral --seq-length 12 && ! train --load mistral --seq-length 20 2>err &&
        grep -q "mistral: --seq-length 20 is more than the 16 positions that its config.json allows" err
}
check "a sequence longer than a Hugging Face folder's is refused" sequences

# has_positions FOLDER N
has_positions() {
    grep -q "\"max_position_embeddings\":[[:space:]]*$2," "$1/config.json"
}

# What a run of shorter sequences leaves has the positions of the folder that it began with, also after a resume.
positions() {
    train --load mistral --finetune --seq-length 8 --save short && has_positions short/step-2 16 &&
        train --load auto --save short --seq-length 8 --train-iters 3 && has_positions short/step-3 16 &&
        "$build/trine-export" short long >out && has_positions long 16 &&
        "$build/trine-generate" long --prompt 0123456789 --tokens 1 >out 2>err &&
        train --family mistral --max-position-embeddings 40 --save stated && has_positions stated/step-2 40 &&
        ! train --max-position-embeddings 40 2>err && grep -q "max-position-embeddings 40: for rotary positions" err
}
check "positions of a folder outlive shorter sequences" positions

# One command for the first start of a fine-tuning and for each restart; the model is that of the folder, then of the
# checkpoint, with what the folder alone knows (theta).
one_command() {
    sed 's/"rope_theta":[^,]*/"rope_theta": 77/' mistral/config.json >theta.json && mkdir -p theta && cp mistral/* theta &&
        mv theta.json theta/config.json &&
        for iters in 2 4; do
            train --load auto --pretrained-checkpoint theta --save tuned --seq-length 8 --train-iters $iters >out || return 1
            grep -q '"rope_theta":[[:space:]]*77,' "tuned/step-$iters/config.json" || return 1
        done && grep -q "^resumed from tuned/step-2: 2 steps" out &&
        ! train --load auto --save tuned --rotary-base 10000 --train-iters 6 2>err &&
        grep -q "rotary-base is 77 there, default here" err
}
check "a fine-tuning starts and restarts with one command" one_command

# What the run's tokenizer says is in config.json of checkpoints and exports, and the class is the family's.
tiny=$root/tests/tokenizer/tiny.json
"$build/trine-tokens" --tokenizer "$tiny" --val-fraction 0 --out ids "$root/include/trine.h" >out
mkdir own && cp "$tiny" own/tokenizer.json
echo '{"eos_token": "a", "bos_token": {"content": "<|endoftext|>"}}' >own/tokenizer_config.json

# family NAME CLASS BOS
family() {
    local at
    rm -rf "of-$1" "to-$1"
    for at in "of-$1/step-1" "of-$1/step-2"; do # a resume keeps them
        "$build/train_gpt" --family "$1" --data-path ids_train.bin --num-layers 1 --hidden-size 32 --num-attention-heads 4 \
            --seq-length 16 --threads 1 --train-iters "${at##*-}" --tokenizer "${4:-$tiny}" --save "of-$1" --load auto >out &&
            tokens_are "$at" "$3" "${5:-466}" || return 1
    done
    "$build/trine-export" "of-$1" "to-$1" >out && tokens_are "to-$1" "$3" "${5:-466}" &&
        grep -q "^to-$1: of-$1/step-2, for transformers.$2.from_pretrained" out && grep -q "\"$2\"" "to-$1/config.json"
}
tokens_are() {
    grep -q "\"bos_token_id\":[[:space:]]*$2," "$1/config.json" && grep -q "\"eos_token_id\":[[:space:]]*$3," "$1/config.json"
}
check "the tokens around texts and the class: GPT-2" family gpt2 GPT2LMHeadModel 466
check "Llama" family llama LlamaForCausalLM null
check "Mistral" family mistral MistralForCausalLM null
check "Qwen2" family qwen2 Qwen2ForCausalLM null
check "Qwen3" family qwen3 Qwen3ForCausalLM null
check "those that tokenizer_config.json names" family llama LlamaForCausalLM 466 own 64
# A folder without a tokenizer still has them.
kept() {
    rm to-llama/token* && "$build/trine-export" to-llama again >out && tokens_are again 466 64
}
check "those of a folder without a tokenizer" kept

files() {
    find . -type f -exec md5sum {} + | sort
}

# refuses TEXT COMMAND...: one message with TEXT, a non-zero status, and no file added or removed
refuses() {
    local text=$1 before
    shift
    before=$(files)
    run "$@"
    [ $status -ne 0 ] && messages 1 && grep -qF -- "$text" "$dir/err" && says 0 '    at ' && [ "$(files)" = "$before" ]
}
cp -r gpt beyond && cp "$tiny" beyond/tokenizer.json
check "a tokenizer with more ids than the vocabulary" \
    refuses "beyond/tokenizer.json: the largest id of this tokenizer is 466, but the model's vocabulary is 256" \
    "$build/trine-export" beyond new
cp -r gpt almost && perl "$root/tests/ckpt/tokenizer.pl" 257 e >almost/tokenizer.json
check "a tokenizer with one id more" \
    refuses "almost/tokenizer.json: the largest id of this tokenizer is 256, but the model's vocabulary is 256" \
    "$build/trine-export" almost new
check "a folder that is not empty" refuses "gpt already exists; name a new or empty folder" \
    "$build/trine-export" run gpt
check "no source" refuses "nowhere: No such file or directory" "$build/trine-export" nowhere new
check "a missing OUT" refuses "expected two folders, FROM and OUT, got 1 (see --help)" "$build/trine-export" run
check "a folder without a checkpoint" refuses "." "$build/trine-export" gpt/.. new/
printf x | dd of=run/step-2/model.safetensors bs=1 seek=5000 conv=notrunc status=none
check "a broken checkpoint" refuses "model.safetensors" "$build/trine-export" run/step-2 new

older() {
    "$build/trine-export" run new >out && grep -q 'skipped run/step-2' out &&
        cmp new/model.safetensors three/model.safetensors
}
check "if the newest checkpoint is broken, the one before it is exported" older
# Folders of running or interrupted exports, and names that only look like them.
beside() {
    local left=fresh.0123456789abcdef.writing
    mkdir $left fresh.writing fresh.0123.writing && echo dear | tee $left/model.safetensors >fresh.writing/config.json &&
        "$build/trine-export" run fresh >out && cat out && [ "$(cat $left/model.safetensors fresh.writing/config.json)" = "dear
dear" ] && grep -q "^\./$left is left over from an interrupted export" out && [ "$(grep -c "is left over from" out)" -eq 1 ] &&
        [ "$(find . -maxdepth 1 -name 'fresh*' | wc -l)" -eq 4 ] && cmp fresh/model.safetensors new/model.safetensors
}
check "folders of other exports stay and are reported" beside
check "more than one process" refuses "trine-export runs in one process, not in 2; start it without mpirun" \
    "$root/tools/mpirun.sh" -np 2 "$build/trine-export" run more
helps() {
    "$build/trine-export" "$@" >help 2>help.err && grep -q '^Usage: trine-export FROM OUT' help && [ ! -s help.err ]
}
check "help" helps --help
check "help despite invalid arguments" helps --wrong --help
full() {
    run sh -c '"$0" --help >/dev/full' "$build/trine-export"
    disk_full
}
check "standard output to a full disk" full
done_testing
