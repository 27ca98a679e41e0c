#!/bin/bash
# trine-export --format gguf of low-rank adapters: a file for llama.cpp's --lora, and with --merge the model with them.
set -eu
. tests/lib.sh

build=$(realpath "$BUILD")
root=$PWD
mkdir "$dir/files"
cd "$dir/files"
"$build/trine-tokens" --out text "$root/include/trine.h" >/dev/null

# train FAMILY ARGUMENTS...: two steps, of which the first makes B something
train() {
    "$build/train_gpt" --data-path text_train.bin --family "$1" --num-layers 2 --hidden-size 64 --num-attention-heads 4 \
        --seq-length 16 --vocab-size 256 --threads 1 --train-iters 2 --lr 1e-2 --lr-decay-style constant --global-batch-size 2 "${@:2}" >out 2>&1
}
gguf() { # gguf OUT FROM ARGUMENTS...
    rm -f "$1" && "$build/trine-export" --format gguf "${@:2}" "$1" >out
}

# holds LORA BASE TYPES...: the file of each type has what the folder of PEFT has, for this base
holds() {
    local type
    for type in "${@:3}"; do
        gguf new.gguf "$1" --type "$type" && "$build/tests/gguf/gguf_driver" new.gguf "$2" "$type" "$1" >entries || return 1
    done
}

# adds MATRICES BASE RUN: what llama.cpp computes with the adapters beside the base is the merged model
adds() {
    gguf base.gguf "$2" && gguf new.gguf "$3" && gguf merged.gguf "$3" --merge &&
        [ "$("$build/tests/gguf/adapter_driver" base.gguf new.gguf merged.gguf)" = "$1 matrices" ]
}

# family NAME MATRICES TYPES TUNING... -- MODEL...: a run with adapters, made of a base in base-NAME; NAME begins with the
# family's
family() {
    local name=$1 matrices=$2 types=$3 tuning=() base
    shift 3
    while [ "$1" != -- ]; do tuning+=("$1") && shift; done
    shift
    base=$PWD/base-$name
    train "${name%-*}" --train-iters 1 --save "run-$name" "$@" && "$build/trine-export" "run-$name" "$base" >out &&
        train "${name%-*}" --load "$base" --finetune --save "$name" "${tuning[@]}" "$@" &&
        "$build/trine-export" --base "$base" "$name" "lora-$name" >out || return 1
    # shellcheck disable=SC2086  # words
    holds "lora-$name" "$base" $types && adds "$matrices" "$base" "$name"
}
check "GPT-2: queries, keys and values in one" family gpt2 6 f32 --lora-rank 3 --lora-alpha 5 --lora-targets c_attn,c_fc,mlp.c_proj --
check "Llama: rows of queries and keys are turned, where keys are fewer" family llama 14 "f32 f16 bf16 q8_0" --lora-rank 4 \
    --lora-targets all-linear -- --num-query-groups 2 --kv-channels 24
check "Qwen3: they are not" family qwen3 4 f32 --lora-rank 32 --lora-alpha 7 --lora-targets q_proj,k_proj -- --kv-channels 32
ranked() {
    family mistral-rs 2 f32 --lora-rank 8 --lora-alpha 3 --lora-rslora --lora-targets q_proj -- && grep -qx "adapter.lora.alpha = 8.48528" entries
}
check "rank-stabilised adapters have the alpha of their scale" ranked
# A rank of 1 is no vector; one above the model's width needs as much memory for a head's rows.
ranks() {
    family llama-1 2 f32 --lora-rank 1 --lora-targets k_proj -- && family llama-96 4 f32 --lora-rank 96 --lora-targets q_proj,v_proj --
}
check "ranks of 1 and above the model's width" ranks

types() {
    gguf new.gguf llama --type q8_0 && grep -q "^14 matrices are f16, because their rows are not a multiple of 32 numbers, which q8_0 requires" out &&
        "$build/tests/gguf/gguf_driver" new.gguf base-llama q8_0 lora-llama >entries && grep -qx "tensor blk.0.attn_q.weight.lora_a 8" entries &&
        grep -qx "tensor blk.0.attn_q.weight.lora_b 1" entries && gguf new.gguf qwen3 --type q8_0 && ! grep "matrices are f16" out
}
check "q8_0: halves whose rows are no multiple of 32 are f16, and that is said" types

# ---- The same adapters from wherever they are

same() {
    mkdir a b c && gguf a/x.gguf llama && gguf b/x.gguf lora-llama && cmp {a,b}/x.gguf && gguf c/x.gguf base-llama --adapter lora-llama && cmp {a,c}/x.gguf &&
        grep -q "^c/x.gguf: the adapters of lora-llama, f32, for llama.cpp's --lora" out
}
check "a run, a folder of adapters, a base and --adapter: the same bytes" same
merged() {
    rm -rf a b c folder && mkdir a b c && "$build/trine-export" --merge gpt2 folder >out && gguf a/x.gguf folder --type q8_0 &&
        gguf b/x.gguf gpt2 --merge --type q8_0 && cmp {a,b}/x.gguf && gguf c/x.gguf base-gpt2 --adapter lora-gpt2 --merge --type q8_0 && cmp {a,c}/x.gguf
}
check "--merge: the bytes of the merged folder's file" merged

# ---- Refused

. "$root/tests/gguf/refuses.sh"
scaled() { # scaled ALPHA TEXT
    rm -rf other && cp -r lora-llama other && sed -i "s/\"lora_alpha\":.*/\"lora_alpha\": $1,/" other/adapter_config.json && refuses "$2" --format gguf other no.gguf
}
check "an alpha that float32 does not have" scaled 1e-60 "adapters of rank 4 with the scale 2.5e-61: rank x scale, which a GGUF file contains, must be a positive float32"
check "nor one so large" scaled 1e60 "with the scale 2.5e+59"
# The first numbers are those of an A: 1e6.
beyond() {
    rm -rf other && cp -r lora-llama other && printf '\0\044\164\111' |
        dd of=other/adapter_model.safetensors bs=1 seek=$((8 + $(od -An -tu8 -N8 other/adapter_model.safetensors))) conv=notrunc status=none &&
        refuses "has 1e+06, above 65504, the largest f16" --format gguf --type f16 other no.gguf && holds other base-llama bf16
}
check "a number that f16 does not have" beyond
# A file of adapters has no tokenizer: one of the base that Trine does not read is in its way only where it is written.
unread() {
    echo '{"model": {"type": "Unigram"}}' >base-qwen3/tokenizer.json && holds lora-qwen3 base-qwen3 f32 &&
        refuses "base-qwen3/tokenizer.json" --format gguf --merge lora-qwen3 no.gguf
}
check "a tokenizer that Trine does not read, of a model; adapters have none" unread
check "a base that the file would name" refuses "--base x: a GGUF file of adapters does not name its base" --format gguf --base x llama no.gguf
check "a base of a model" refuses "--base x: no adapters are written" --format gguf --base x base-qwen3 no.gguf
check "nothing to merge" refuses "--merge: base-qwen3 has no adapters" --format gguf --merge base-qwen3 no.gguf
check "a file that exists" refuses "new.gguf already exists; name a new file" --format gguf llama new.gguf

done_testing
