#!/bin/bash
# Folders of low-rank adapters: exported from a run, read beside their base, merged into it; in every family.
set -eu
. tests/lib.sh

build=$(realpath "$BUILD")
root=$PWD
mkdir "$dir/files"
cd "$dir/files"
"$build/trine-tokens" --out text "$root/include/trine.h" >/dev/null

# train FAMILY ARGUMENTS...
train() {
    "$build/train_gpt" --data-path text_train.bin --family "$1" --num-layers 2 --hidden-size 32 --num-attention-heads 4 \
        --seq-length 16 --vocab-size 256 --threads 1 --train-iters 4 --lr 1e-2 --global-batch-size 4 "${@:2}"
}

# logits FOLDER FILE [TP PP]: of 16 tokens
logits() {
    tools_run=() ranks=$((${3:-1} * ${4:-1}))
    [ $ranks -eq 1 ] || tools_run=("$root/tools/mpirun.sh" -np $ranks)
    (cd "$root" && "${tools_run[@]}" "$build/tests/ckpt/logits_driver" "$dir/files/$1" "$dir/files/$2" "${3:-1}" "${4:-1}") >out 2>&1 ||
        { sed 's/^/# /' out && false; }
}

# near A B: the largest difference of two files of logits is at most 1e-5 of the largest of A: float32 matrices of width
# 32 round W + B A once where the other adds a second product
near() {
    paste -d ' ' <(od -An -v -w4 -j 8 -t f4 "$1") <(od -An -v -w4 -j 8 -t f4 "$2") |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d; a = $1 < 0 ? -$1 : $1; if (a > large) large = a }
             END { print "# largest difference " most " of " large; exit !(NR && large && most <= 1e-5 * large) }'
}

for family in gpt2 llama mistral qwen2 qwen3; do
    targets=q_proj,v_proj,up_proj,down_proj
    [ $family = gpt2 ] && targets=c_attn,c_fc,mlp.c_proj
    rm -rf base run lora merged
    train $family --save run >out 2>&1
    "$build/trine-export" run base >out
    train $family --load base --finetune --save tuned-$family --lora-rank 3 --lora-alpha 5 --lora-rslora \
        --lora-targets $targets --load-weights-only >out 2>&1 || cat out
    logits tuned-$family own && "$build/trine-export" --merge tuned-$family merged >out &&
        [ "$(ls merged)" = "$(printf 'config.json\nmodel.safetensors')" ] && logits merged m && near own m
    result $? "$family: the merged model is the base plus its adapters"

    logits base b && ! near b own
    result $? "$family: which are not nothing"

    { "$build/trine-export" --base "$PWD/base" tuned-$family lora >out || cat out; } &&
        [ "$(ls lora)" = "$(printf 'adapter_config.json\nadapter_model.safetensors')" ] && logits lora l && cmp l own &&
        logits lora l 2 2 && near l own
    result $? "$family: a folder of adapters names its base"

    rm -rf other && "$build/trine-export" --adapter lora base other >out && cmp other/adapter_model.safetensors lora/adapter_model.safetensors &&
        rm -rf other && "$build/trine-export" --merge --adapter lora base other >out && cmp other/model.safetensors merged/model.safetensors
    result $? "$family: and can be added to a base"
done

# A new run begins with a base and adapters: with a learning rate of zero it ends with them, on four ranks, too.
still() {
    rm -rf still other && "$root/tools/mpirun.sh" -np "$1" "$build/train_gpt" --data-path text_train.bin --threads 1 \
        --train-iters 1 --lr 0 --global-batch-size 4 --seq-length 16 --save still "${@:2}" >out 2>&1 &&
        "$build/trine-export" --base "$PWD/base" still other >/dev/null && cmp other/adapter_config.json lora/adapter_config.json &&
        cmp other/adapter_model.safetensors lora/adapter_model.safetensors
}
still 1 --load base --adapter lora && grep -qx "loaded the weights of base and the adapters of lora: step 0, new optimizer" out
result $? "a run begins with a base and adapters: rank, scale and targets are theirs"
still 4 --load lora --dp 2 --tp 2 --zero 3
result $? "and with a folder of adapters, which names its base"
still 4 --load auto --pretrained-checkpoint base --adapter lora --pp 2 --dp 2
result $? "and with both where nothing is saved yet"
"$build/trine-export" still kept >/dev/null && train qwen3 --load auto --pretrained-checkpoint base --adapter missing --save still >out 2>&1 &&
    grep -q "^resumed from still/step-1" out
result $? "what is saved has adapters of its own"

# ---- Checkpoints without their base

# go SAVE ARGUMENTS...: to step 8, saved after 4
go() {
    "$build/train_gpt" --data-path text_train.bin --threads 1 --train-iters 8 --lr 1e-2 --global-batch-size 4 --seq-length 16 \
        --save-interval 4 --save "$1" "${@:2}" >out 2>&1
}
go whole --load base --finetune --lora-rank 3 --lora-targets all-linear &&
    [ "$(cd whole/step-8 && echo *)" = "adapter_config.json adapter_model.safetensors manifest.json optimizer.safetensors options.txt" ] &&
    grep -q "\"base_model_name_or_path\":.*\"$PWD/base\"" whole/step-8/adapter_config.json
result $? "a checkpoint has adapters as PEFT writes them, and not their base"
go resumed --load whole/step-4 && grep -qx "  the base of its adapters: $PWD/base" out &&
    cmp whole/step-8/adapter_model.safetensors resumed/step-8/adapter_model.safetensors &&
    cmp whole/step-8/optimizer.safetensors resumed/step-8/optimizer.safetensors &&
    cmp whole/step-8/manifest.json resumed/step-8/manifest.json
result $? "a resume has the bits of the run that went on"
tools_run=("$root/tools/mpirun.sh" -np 4) && "${tools_run[@]}" "$build/train_gpt" --data-path text_train.bin --threads 1 --train-iters 8 \
    --lr 1e-2 --global-batch-size 4 --seq-length 16 --save four --load whole/step-4 --dp 2 --tp 2 --zero 3 >out 2>&1 &&
    logits whole/step-8 w && logits four/step-8 f && near w f && logits four/step-8 f 2 2 && near w f
result $? "and on four ranks, with the base's shards"
"$build/trine-export" --merge whole merged2 >out && logits merged2 m && near w m &&
    "$build/trine-export" whole lora2 >out && logits lora2 l && cmp l w
result $? "it is exported with its base, and its adapters with the base's name"
go more --load base --finetune --lora-rank 3 --train '*norm*' && [ -e more/step-8/model.safetensors ] && [ ! -e more/step-8/adapter_config.json ] &&
    go scratch --family llama --num-layers 1 --hidden-size 16 --num-attention-heads 2 --vocab-size 256 --lora-rank 2 &&
    [ -e scratch/step-8/model.safetensors ]
result $? "a base that is trained, or is no folder, is in the checkpoint"
go fresh --load whole --finetune && [ ! -e fresh/step-8/model.safetensors ] && grep -q "\"$PWD/base\"" fresh/step-8/adapter_config.json
result $? "a new run that begins with one has the same base"

mv base moved
refused_run() { # TEXT
    ! go gone --load whole/step-4 && grep -q -F -- "$1" out
}
refused_run "whole/step-4 contains only adapters, and their base $PWD/base is not a Hugging Face folder here"
result $? "a base that was moved is named"
cp -r whole/step-4 step-4 && sed -i "s|\"$PWD/base\"|\"$PWD/moved\"|" step-4/adapter_config.json && go again --load step-4 &&
    cmp whole/step-8/adapter_model.safetensors again/step-8/adapter_model.safetensors
result $? "and found where adapter_config.json says"
cp -r moved changed && sed -i 's|/moved"|/changed"|' step-4/adapter_config.json &&
    printf '\001' | dd of=changed/model.safetensors bs=1 conv=notrunc seek=$(($(stat -c %s changed/model.safetensors) / 2)) 2>/dev/null
! go gone --load step-4 && grep -q "step-4: its adapters belong to another base: the hash of $PWD/changed is [0-9a-f]*, it was [0-9a-f]*" out &&
    ! "$build/trine-generate" step-4 --tokens 1 >out 2>&1 && grep -q "another base" out
result $? "another base is refused"
mv moved base

# refused COMMAND... TEXT: it fails, with one message that has the text
refused() {
    ! (cd "$root" && "${@:1:$#-1}") >out 2>err && [ "$(grep -c '^trine' err)" -eq 1 ] && grep -q -F -- "${*: -1}" err
}

# with SCRIPT: the folder `broken`, adapters whose configuration sed has changed
with() {
    rm -rf broken && cp -r lora broken && sed -i "$1" broken/adapter_config.json
}
with 's/"r":.*/"r": 4,/' && refused "$build/trine-export" "$dir/files/broken" "$dir/files/none" "lora_A.weight has shape"
result $? "adapters of another rank"
with 's/"up_proj"/"gate_proj"/' && refused "$build/trine-export" "$dir/files/broken" "$dir/files/none" "gate_proj.lora_A.weight"
result $? "adapters of other targets"
with 's/"up_proj"/"c_fc"/' && refused "$build/trine-export" "$dir/files/broken" "$dir/files/none" 'adapter_config.json: --lora-targets: "c_fc" names no matrix'
result $? "a target that the family does not have"
with 's/,[^,]*"up_proj"//' && refused "$build/trine-export" "$dir/files/broken" "$dir/files/none" "is not a tensor of the adapters"
result $? "an adapter of no target"
with 's|"base_model_name_or_path":.*|"base_model_name_or_path": "of/elsewhere",|' &&
    refused "$build/trine-export" "$dir/files/broken" "$dir/files/none" "its base of/elsewhere is not a folder here"
result $? "a base that is elsewhere"
refused "$build/trine-export" --adapter "$dir/files/lora" "$dir/files/tuned-qwen3" "$dir/files/none" "already has adapters"
result $? "adapters for a model that has adapters"
refused "$build/trine-export" --merge "$dir/files/base" "$dir/files/none" "--merge: $dir/files/base has no adapters"
result $? "nothing to merge"
refused "$build/trine-export" --base x "$dir/files/base" "$dir/files/none" "--base x: no adapters are written"
result $? "a base of no adapters"
start=("$build/train_gpt" --data-path "$dir/files/text_train.bin" --train-iters 1 --threads 1)
refused "${start[@]}" --load "$dir/files/base" --adapter "$dir/files/lora" --lora-rank 5 "lora-rank is 3 there, 5 here"
result $? "another rank than the adapters'"
refused "${start[@]}" --load "$dir/files/run" --adapter "$dir/files/lora" "is a checkpoint of a run without the adapters of"
result $? "a run goes on as it is"
refused "${start[@]}" --load "$dir/files/tuned-qwen3" --finetune --adapter "$dir/files/lora" "already has adapters"
result $? "a run with adapters"
refused "${start[@]}" --adapter "$dir/files/lora" "--adapter requires --load"
result $? "adapters of nothing"
refused "${start[@]}" --load auto --save "$dir/files/none" --adapter "$dir/files/lora" "--adapter with --load auto requires --pretrained-checkpoint"
result $? "adapters of a base that is not given"
refused "${start[@]}" --load "$dir/files/base" --adapter "$dir/files/base" "adapter_config.json"
result $? "a folder of something else"
[ ! -e none ] && [ -z "$(ls -d none* 2>/dev/null)" ]
result $? "nothing is left"

done_testing
