#!/bin/sh
# trine-generate on a checkpoint of train_gpt: text and ids, every layout, reproducible text, and one message for
# each error in its input.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
saved=$dir/saved

# writes RANKS ARGUMENTS...: run_ranks of trine-generate
writes() {
    ranks=$1
    shift
    run_ranks "$ranks" "$BUILD/trine-generate" "$@" --threads 1
}

# refused RANKS TEXT NAME ARGUMENTS...: one message with TEXT, and no standard output
refused() {
    ranks=$1 text=$2 name=$3
    shift 3
    writes "$ranks" "$@"
    messages 1 && says 1 "$text" && ended && [ ! -s "$dir/out" ]
    result $? "$name"
}

# The training text is "AAAA..."; the model learns it in thirty steps.
job 4 --data-path "$data" --train-iters 30 --lr 1e-2 --tp 2 --pp 2 --save "$saved"
[ "$status" -eq 0 ] && [ -d "$saved/step-30" ]
result $? "a model is trained and saved"

writes 0 "$saved" --prompt AAA --tokens 20 --temperature 0
[ "$status" -eq 0 ] && [ "$(cat "$dir/out")" = AAAAAAAAAAAAAAAAAAAAAAA ] && says 1 tokens/s
result $? "text: the prompt and its learnt continuation"

writes 0 "$saved/step-30" --ids "65, 65" --tokens 3 --temperature 0
[ "$status" -eq 0 ] && [ "$(cat "$dir/out")" = "65 65 65 65 65" ]
result $? "ids in, ids out, from a named checkpoint"

# A temperature at which all tokens occur; longer than the sequence of 16.
writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 3
cp "$dir/out" "$dir/text"
[ "$status" -eq 0 ] && [ "$(wc -w <"$dir/text")" -eq 63 ] &&
    [ "$(tr ' ' '\n' <"$dir/text" | sort -u | wc -l)" -gt 20 ]
result $? "a text longer than the sequence"

for layout in "2 --tp 2" "3 --pp 3" "4 --tp 2 --pp 2"; do
    # shellcheck disable=SC2086  # words are meant to be split
    writes $layout "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 3
    [ "$status" -eq 0 ] && cmp "$dir/out" "$dir/text" >"$dir/err" 2>&1
    result $? "the same text with layout $layout"
done

writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 3 --no-cache
[ "$status" -eq 0 ] && cmp "$dir/out" "$dir/text" >"$dir/err" 2>&1
result $? "the same text without a cache"

# The model has a table of 16 positions, which is read whole.
writes 0 "$saved" --ids "1 2 3" --tokens 6 --temperature 6 --seed 3 --seq-length 8
[ "$status" -eq 0 ] && [ "$(cat "$dir/out")" = "$(cut -d" " -f1-9 <"$dir/text")" ]
result $? "a limit of 8 positions: the same text up to its ninth token"

writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 4
[ "$status" -eq 0 ] && ! cmp -s "$dir/out" "$dir/text"
result $? "another seed, another text"

writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --top-k 1
[ "$status" -eq 0 ] && mv "$dir/out" "$dir/first" &&
    writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 0 && cmp -s "$dir/out" "$dir/first"
result $? "top-k 1 selects the most likely token, as temperature 0 does"

# ---- The text as an event

writes 0 "$saved" --prompt AAA --tokens 20 --temperature 0 --tensorboard "$dir/board"
event=$(ls "$dir/board/samples")
[ "$status" -eq 0 ] && [ "$(cat "$dir/out")" = AAAAAAAAAAAAAAAAAAAAAAA ] &&
    [ "$(expr "$event" : 'events.out.tfevents.[0-9]*[.]')" -gt 0 ] &&
    [ "$(grep -ac '^ *    AAAAAAAAAAAAAAAAAAAAAAA$\|sample.*    AAAAAAAAAAAAAAAAAAAAAAA$' "$dir/board/samples/$event")" = 1 ]
result $? "--tensorboard: prompt and text as an event"
cp "$dir/board/samples/$event" "$dir/event"
writes 2 "$saved" --prompt AA --tokens 3 --temperature 0 --tp 2 --tensorboard "$dir/board"
[ "$status" -eq 0 ] && cmp "$dir/event" "$dir/board/samples/$event" && [ "$(ls "$dir/board/samples" | wc -l)" = 2 ] &&
    [ "$(ls "$dir/board/samples" | head -n 1)" = "$event" ]
result $? "a second text is a second file, whose name sorts behind"
writes 0 "$saved" --prompt AAAAAAAAAAAAAAAAA --tensorboard "$dir/board"
[ "$status" -ne 0 ] && [ "$(ls "$dir/board/samples" | wc -l)" = 2 ]
result $? "an error leaves no file"

# ---- Errors

refused 0 "--tensorboard writes one text; with --chat it requires --prompt" "a conversation as an event" "$saved" --chat \
    --tensorboard "$dir/board"
touch "$dir/file"
refused 0 "--tensorboard $dir/file/board: cannot create the folder" "a file for a parent of the folder" "$saved" \
    --tensorboard "$dir/file/board"

refused 0 "2 errors on the command line" "invalid options" "$saved" --temprature 1 --top-k -1
! grep -q "at src/" "$dir/err"
result $? "an invalid option is reported without an error trail"
refused 0 "expected one PATH" "no path"
refused 2 "expected one PATH" "two paths" "$saved" "$saved"
refused 0 "--prompt and --ids are mutually exclusive" "both text and ids" "$saved" --prompt A --ids 65
for option in "--top-k 3" "--top-p 0.5" "--seed 3"; do
    # shellcheck disable=SC2086  # an option and its value
    refused 0 "${option% *} requires a --temperature above 0" "$option without chance" "$saved" --temperature 0 $option
done
refused 0 "--ignore-eos requires text" "--ignore-eos of ids, which have no end" "$saved" --ids 65 --ignore-eos
refused 2 "$dir/nothing: No such file or directory" "a missing folder" "$dir/nothing" --tp 2
mkdir "$dir/empty"
refused 0 "$dir/empty has no checkpoint" "an empty folder" "$dir/empty"
refused 0 "the prompt of 17 tokens exceeds the model's sequence length of 16" "a prompt that is too long" "$saved" \
    --prompt AAAAAAAAAAAAAAAAA
refused 0 "the prompt of 9 tokens exceeds the sequence length of 8; use --seq-length (at most 16)" \
    "a prompt longer than the limit" "$saved" --prompt AAAAAAAAA --seq-length 8
refused 2 "--seq-length 17: the model has 16 learned positions" "a limit beyond the model's positions" "$saved" \
    --tp 2 --seq-length 17
refused 2 "invalid token id 256 (valid: 0 to 255)" "an id outside of the vocabulary" "$saved" \
    --ids "1 256" --pp 2
refused 0 'invalid token id at "-1"' "an id below 0" "$saved" --ids "3 -1"
refused 0 "start that many with mpirun" "more ranks than the job has" "$saved" --tp 2
refused 3 "--tp 3: must divide --num-attention-heads 4" "tp does not divide the heads" "$saved" --tp 3
refused 0 'unknown device "gpu"' "an unknown device" "$saved" --device gpu

# Different options on the second rank would give another text, or a hang.
: >"$dir/statuses"
# shellcheck disable=SC2016  # expanded by the ranks
run tools/mpirun.sh -np 2 /bin/sh -c \
    '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || set -- "$@" --seed 8 --tokens 3; exec "$@"' sh \
    "$BUILD/trine-generate" "$saved" --tp 2 --tokens 2
[ "$status" -ne 0 ] && [ ! -s "$dir/out" ] && says 1 "were started with different options:" &&
    says 1 "  --tokens" && says 1 "    3: rank 1 on " && says 1 "  --seed" && says 1 "    8: rank 1 on "
result $? "different sampling options on one rank"
# shellcheck disable=SC2016  # expanded by the ranks
run tools/mpirun.sh -np 2 /bin/sh -c \
    '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || set -- "$@" --tp 1 --pp 2 --seq-length 8; exec "$@"' sh \
    "$BUILD/trine-generate" "$saved" --tp 2 --tokens 2
[ "$status" -ne 0 ] && says 1 "  --tp" && says 1 "    1: rank 1 on " && says 1 "  --pp" &&
    says 1 "  --seq-length" && says 1 "    8: rank 1 on "
result $? "a different layout and limit on one rank"

# A vocabulary that is not bytes.
job 0 --data-path "$data" --vocab-size 70 --train-iters 1 --save "$dir/other"
refused 0 "use --ids" "text for a vocabulary other than bytes" "$dir/other" --prompt A
writes 0 "$dir/other" --ids "65" --tokens 2
[ "$status" -eq 0 ] && [ "$(wc -w <"$dir/out")" -eq 3 ]
result $? "ids of a vocabulary other than bytes"

# A changed byte of the weights is reported before anything is written.
size=$(stat -c %s "$dir/other/step-1/model.safetensors")
printf '\377' | dd of="$dir/other/step-1/model.safetensors" bs=1 seek=$((size / 2)) conv=notrunc \
    status=none
writes 0 "$dir/other/step-1" --ids 65
[ "$status" -ne 0 ] && [ ! -s "$dir/out" ] && says 1 "model.safetensors"
result $? "a broken file is named"

run sh -c '"$0" "$@" >/dev/full' "$BUILD/trine-generate" --help
disk_full
result $? "--help to a full disk"
run sh -c '"$0" "$@" >/dev/full' "$BUILD/trine-generate" "$saved" --prompt AAA --tokens 2
disk_full
result $? "text to a full disk"
writes 0 "$saved" --tp 65536 --pp 65536
[ "$status" -eq 1 ] && messages 1 && says 1 "tp 65536 x pp 65536 need 4294967296 ranks, but there are 1"
result $? "more ranks than an int can count"

done_testing
