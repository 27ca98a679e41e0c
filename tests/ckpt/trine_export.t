#!/bin/bash
# The command trine-export, from a run's checkpoints and back into a run, and what it refuses.
set -eu
. tests/lib.sh

build=$(realpath "$BUILD")
root=$PWD
mkdir "$dir/files"
cd "$dir/files"

# train ARGUMENTS...: a small run in bf16 where the processor has it
if grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then type=--bf16; else type=; fi
train() {
    # shellcheck disable=SC2086  # nothing or one word
    "$build/train_gpt" --data-path text_train.bin --num-layers 2 --hidden-size 32 \
        --num-attention-heads 4 --seq-length 16 --vocab-size 256 --threads 1 --train-iters 2 --lr-decay-style constant \
        --val-data-path text_val.bin --eval-iters 1 $type "$@"
}

"$build/trine-tokens" --out text "$root/include/trine.h" >/dev/null

# val_loss FILE: the last one that a run wrote
val_loss() {
    sed -n 's/.*"val_loss": *\([0-9.]*\).*/\1/p' "$1" | "$2" -n 1
}

whole() {
    train --save run --save-interval 1 --log first.json && "$build/trine-export" run gpt >out &&
        grep -q '^gpt: run/step-2, for transformers' out && [ "$(ls gpt)" = "$(printf 'config.json\nmodel.safetensors')" ]
}
check "the newest checkpoint of a run becomes a folder" whole

# So it needs no export; but its weights may be of 16 bits, where an export has the masters.
as_it_is() {
    sed 's/"torch_dtype":.*/"torch_dtype"/' gpt/config.json >a && sed 's/"torch_dtype":.*/"torch_dtype"/' run/step-2/config.json >b &&
        cmp a b && { [ -n "$type" ] || cmp gpt/config.json run/step-2/config.json; } && rm a b
}
check "a checkpoint has the config.json of an export" as_it_is

# Validation begins before the first step: its loss is that of the weights which were loaded.
again() {
    train --load gpt --log second.json && last=$(val_loss first.json tail) && [ -n "$last" ] &&
        [ "$(val_loss second.json head)" = "$last" ]
}
check "a run begins with it where the old one ended" again

# Masters are fp32 whatever the run computes in; the file says nothing of the run.
same() {
    grep -q '"torch_dtype":[[:space:]]*"float32"' gpt/config.json && "$build/trine-export" run/step-2 one &&
        "$build/trine-export" gpt two && cmp gpt/model.safetensors one/model.safetensors &&
        cmp gpt/model.safetensors two/model.safetensors && cmp gpt/config.json two/config.json &&
        ! "$build/trine-export" run/step-1 three | grep -q passed &&
        ! cmp -s gpt/model.safetensors three/model.safetensors
}
check "equal weights give equal files" same

files() {
    find . -type f -exec md5sum {} + | sort
}

# refuses TEXT COMMAND...: one line with TEXT, exit status 1, no file more or less
refuses() {
    local text=$1 before
    shift
    before=$(files)
    run "$@"
    [ $status -ne 0 ] && messages 1 && grep -qF -- "$text" "$dir/err" && says 0 '    at ' && [ "$(files)" = "$before" ]
}
check "a folder that is filled" refuses "gpt is there already: name a folder that is new or empty" \
    "$build/trine-export" run gpt
check "no source" refuses "nowhere: No such file or directory" "$build/trine-export" nowhere new
check "one folder" refuses "two folders are wanted, FROM and OUT (see --help), not 1" "$build/trine-export" run
check "a folder of something else" refuses "." "$build/trine-export" gpt/.. new/
printf x | dd of=run/step-2/model.safetensors bs=1 seek=5000 conv=notrunc status=none
check "a broken checkpoint" refuses "model.safetensors" "$build/trine-export" run/step-2 new

older() {
    "$build/trine-export" run new >out && grep -q 'passed over run/step-2' out &&
        cmp new/model.safetensors three/model.safetensors
}
check "of a run whose newest is broken the one before" older
# What another export is writing, or has left, and what only looks like that.
beside() {
    local left=fresh.0123456789abcdef.writing
    mkdir $left fresh.writing fresh.0123.writing && echo dear | tee $left/model.safetensors >fresh.writing/config.json &&
        "$build/trine-export" run fresh >out && cat out && [ "$(cat $left/model.safetensors fresh.writing/config.json)" = "dear
dear" ] && grep -q "^\./$left is left of an export that did not end" out && [ "$(grep -c "is left of" out)" -eq 1 ] &&
        [ "$(find . -maxdepth 1 -name 'fresh*' | wc -l)" -eq 4 ] && cmp fresh/model.safetensors new/model.safetensors
}
check "what others are writing beside it stays, and is named" beside
check "more than one process" refuses "this is 2 processes, and one is enough" \
    "$root/tools/mpirun.sh" -np 2 "$build/trine-export" run more
helps() {
    "$build/trine-export" "$@" >help 2>help.err && grep -q '^Usage: trine-export FROM OUT' help && [ ! -s help.err ]
}
check "help" helps --help
check "help in spite of mistakes" helps --wrong --help
full() {
    run sh -c '"$0" --help >/dev/full' "$build/trine-export"
    disk_full
}
check "standard output that takes nothing" full
done_testing
