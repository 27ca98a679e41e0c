#!/bin/bash
# A run's tokenizer: its files are in every checkpoint and export, bit for bit, and a model, tokenizer and token files
# that do not belong together are refused, each with one message.
set -eu
. tests/lib.sh

make=$PWD/tests/ckpt/tokenizer.pl
mpirun=$PWD/tools/mpirun.sh
build=$(realpath "$BUILD")
mkdir "$dir/files"
cd "$dir/files"

# Two tokenizers of 300 tokens, with different merges; one of 400; one that Trine does not read.
mkdir own other wide foreign broken
perl "$make" 300 e o >own/tokenizer.json
perl "$make" 300 o e >other/tokenizer.json
perl "$make" 400 e o >wide/tokenizer.json
sed 's/"BPE"/"Unigram"/' own/tokenizer.json >foreign/tokenizer.json
head -c 3000 own/tokenizer.json >broken/tokenizer.json
echo '{"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}' >own/tokenizer_config.json
echo '{"eos_token_id": 299}' >own/generation_config.json
printf '%s' '{{ messages }}' >own/chat_template.jinja
echo 'not carried' >own/README.md
carried="chat_template.jinja generation_config.json tokenizer.json tokenizer_config.json"

# train RANKS ARGUMENTS...: a run to step 4; without mpirun on one rank
train() {
    local start=()
    [ "$1" -eq 1 ] || start=("$mpirun" -np "$1")
    # shellcheck disable=SC2086  # words are meant to be split
    run "${start[@]}" "$build/train_gpt" $SMALL --vocab-size 300 --data-path plain.bin --global-batch-size 4 \
        --lr-decay-style constant --train-iters 4 "${@:2}"
}

# label FILE SAVED: a token file whose header has the hash in the checkpoint SAVED/step-1
label() {
    local hash
    hash=$(sed -n '/"tokenizer"/,/"hash"/s/.*"hash":[[:space:]]*"\([0-9a-f]*\)".*/\1/p' "$2/step-1/manifest.json")
    [ ${#hash} -eq 16 ] && cp plain.bin "$1" &&
        le32 $((16#${hash:8})) $((16#${hash:0:8})) | dd of="$1" bs=1 seek=16 conv=notrunc status=none
}
# same FOLDER: has exactly the files of own/ that are carried
same() {
    local name
    for name in $carried; do cmp "own/$name" "$1/$name" || return 1; done
    [ ! -e "$1/README.md" ] && [ ! -e "$1/vocab.json" ]
}

files() { find . -type f ! -name '.lease-*' | sort; }

# refuses TEXT COMMAND...: one message with TEXT and without a stack, and no file added or removed
refuses() {
    local text=$1 before
    before=$(files)
    shift
    "$@"
    [ "$status" -ne 0 ] && messages 1 && grep -qF -- "$text" "$dir/err" && says 0 '    at ' &&
        [ "$(files)" = "$before" ]
}

token_file plain.bin 20240520 1 641 641
for name in own other; do
    train 1 --tokenizer $name --train-iters 1 --save first-$name
    label $name.bin first-$name || result 1 "the hash of $name is in the manifest"
done

saves() {
    train 4 --tp 2 --dp 2 --zero 1 --tokenizer own/tokenizer.json --data-path own.bin --train-iters 2 --save-interval 1 --save saved
    [ "$status" -eq 0 ] && same saved/step-1 && same saved/step-2
}
check "every checkpoint has the files of the tokenizer" saves

# Under another layout, without the tokenizer's folder.
resumes() {
    mv own gone
    train 2 --pp 2 --data-path own.bin --save saved --load auto
    mv gone own
    [ "$status" -eq 0 ] && prints 1 "tokenizer: saved/step-2/tokenizer.json, ids below 300" && same saved/step-4
}
check "a run that is resumed under another layout keeps them" resumes

moves() {
    train 1 --load saved/step-4 --train-iters 5 --save moved && [ "$status" -eq 0 ] && same moved/step-5 &&
        train 1 --load saved/step-4 --load-weights-only --train-iters 1 --save fine && same fine/step-1
}
check "a run that saves elsewhere carries them on" moves

exports() {
    "$build/trine-export" saved out >"$dir/out" && same out && [ "$(find out -type f | wc -l)" -eq 6 ] &&
        "$build/trine-export" out again >"$dir/out" && diff -r out again &&
        train 1 --load out --train-iters 1 --save from && [ "$status" -eq 0 ] && same from/step-1
}
check "an export has them, and an export of it, and a run from it" exports

# tokenizer.json under another name, beside files of other tokenizers.
renamed() {
    mkdir names && cp other/tokenizer.json own/tokenizer_config.json names && cp own/tokenizer.json names/mine.json &&
        train 1 --tokenizer names/mine.json --data-path own.bin --train-iters 1 --save named && [ "$status" -eq 0 ] &&
        cmp own/tokenizer.json named/step-1/tokenizer.json && cmp own/tokenizer_config.json named/step-1/tokenizer_config.json
}
check "a tokenizer.json of another name is saved as tokenizer.json" renamed

plain() {
    train 1 --data-path own.bin --train-iters 1 --save none && [ "$status" -eq 0 ] && [ ! -e none/step-1/tokenizer.json ] &&
        refuses "the token files of other.bin" train 1 --data-path other.bin --save none --load auto
}
check "without a tokenizer a run goes on with tokens of the same one only" plain

# The banner; a run without --save has no checkpoints, and a vocabulary of 256 is bytes.
says_so() {
    local none="no tokenizer: checkpoints will not contain the one that trine-generate needs; give --tokenizer PATH here, or to trine-generate"
    train 2 --dp 2 --data-path own.bin --train-iters 1 --save unsaid && [ "$status" -eq 0 ] && prints 1 "$none" &&
        train 1 --data-path own.bin --train-iters 1 && [ "$status" -eq 0 ] && prints 0 "no tokenizer" &&
        train 1 --data-path plain.bin --vocab-size 256 --train-iters 1 --save bytes && [ "$status" -eq 0 ] && prints 0 "no tokenizer" &&
        train 1 --tokenizer own --data-path own.bin --train-iters 1 --save unsaid && prints 0 "no tokenizer"
}
check "a run whose checkpoints will have no tokenizer says so" says_so

foreign() {
    cp -r out model && cp foreign/tokenizer.json model && train 1 --load model --data-path own.bin --train-iters 1 --save odd &&
        [ "$status" -eq 0 ] && prints 1 "tokenizer: saved with checkpoints, but not compared with the data" &&
        cmp foreign/tokenizer.json odd/step-1/tokenizer.json && prints 0 "no tokenizer"
}
check "a folder's tokenizer that Trine does not read is carried" foreign

# ---- Refused

check "token files of another tokenizer" refuses "--data-path other.bin was made with a different tokenizer" \
    train 4 --tp 2 --tokenizer own --data-path other.bin --save new
check "of the validation, too" refuses "--val-data-path other.bin was made with a different tokenizer" \
    train 1 --tokenizer own --data-path own.bin --val-data-path other.bin --save new
check "a source of a blend" refuses "--data-path other.bin was made with a different tokenizer" \
    train 1 --tokenizer own --data-path "0.5 plain.bin 0.5 other.bin" --save new
check "training and validation of two tokenizers" refuses "made with different tokenizers (hashes" \
    train 1 --data-path own.bin --val-data-path other.bin --save new
check "token files of another tokenizer than the checkpoint's" refuses \
    "--data-path other.bin was made with a different tokenizer" train 1 --data-path other.bin --save saved --load auto
check "a vocabulary that is too small" refuses "the largest id of this tokenizer is 399, but the model's vocabulary is 300" \
    train 1 --tokenizer wide --save new
# A loaded model keeps its vocabulary, so that a larger one is no advice there.
check "a vocabulary of a loaded model that is too small" refuses "name the model's own tokenizer with --tokenizer, or start a new model \
(without --load) with --vocab-size 400 or more" train 1 --tokenizer wide --load saved/step-4 --save new
check "another tokenizer than the checkpoint's" refuses "saved/step-4: the run uses a different tokenizer" \
    train 2 --tokenizer other --save saved --load auto
check "no tokenizer" refuses "nothing/here" train 1 --tokenizer nothing/here --save new
check "a broken tokenizer" refuses "broken/tokenizer.json" train 1 --tokenizer broken --save new
check "a tokenizer that Trine does not read" refuses "foreign/tokenizer.json" train 1 --tokenizer foreign --save new

given() {
    # shellcheck disable=SC2016  # expanded by the ranks
    run "$mpirun" -np 2 sh -c 'set -- "$0" "$@"; [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || set -- "$@" --tokenizer own; exec "$@"' \
        "$build/train_gpt" $SMALL --vocab-size 300 --data-path plain.bin --train-iters 4
}
check "a tokenizer on one rank only" refuses "--tokenizer" given

# Fine-tuning may take another one, and a larger model vocabulary fits.
finetunes() {
    train 2 --load saved/step-4 --finetune --tokenizer other --data-path other.bin --train-iters 1 --save tuned &&
        [ "$status" -eq 0 ] && prints 1 "tokenizer: other/tokenizer.json, ids below 300; the checkpoint has a different one" &&
        cmp other/tokenizer.json tuned/step-1/tokenizer.json && [ ! -e tuned/step-1/tokenizer_config.json ] &&
        train 1 --vocab-size 512 --tokenizer wide --train-iters 1 --save padded && [ "$status" -eq 0 ]
}
check "fine-tuning with another tokenizer" finetunes

# ---- Damaged

damaged() {
    cp -r saved bad && printf '\1' | dd of=bad/step-4/tokenizer.json bs=1 seek=100 conv=notrunc status=none &&
        train 2 --data-path own.bin --train-iters 3 --save bad --load auto && [ "$status" -eq 0 ] &&
        prints 1 "skipped bad/step-4: tokenizer.json: checksum mismatch in bytes 0 to " && prints 1 "resumed from bad/step-2" &&
        same bad/step-3 && rm bad/step-3/chat_template.jinja && cp -r bad worse && rm -r worse/step-[124] &&
        refuses "step-3: chat_template.jinja is missing" train 1 --data-path own.bin --save worse --load auto
}
check "a flipped bit and a missing file are found" damaged
done_testing
