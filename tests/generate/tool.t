#!/bin/sh
# trine-generate on a checkpoint that train_gpt has just made, and on what is none: text and ids, every
# layout, the same text again, and one message for whatever is wrong.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
saved=$dir/saved

# writes RANKS ARGUMENTS...: run_ranks of trine-generate
writes() {
    ranks=$1
    shift
    run_ranks "$ranks" "$BUILD/trine-generate" "$@" --threads 1
}

# refused RANKS TEXT NAME ARGUMENTS...: one message, with TEXT, and nothing on standard output
refused() {
    ranks=$1 text=$2 name=$3
    shift 3
    writes "$ranks" "$@"
    messages 1 && says 1 "$text" && ended && [ ! -s "$dir/out" ]
    result $? "$name"
}

# What it has read is "AAAA..."; it learns that in thirty steps.
job 4 --data-path "$data" --train-iters 30 --lr 1e-2 --tp 2 --pp 2 --save "$saved"
[ "$status" -eq 0 ] && [ -d "$saved/step-30" ]
result $? "a model is trained and saved"

writes 0 "$saved" --prompt AAA --tokens 20 --temperature 0
[ "$status" -eq 0 ] && [ "$(cat "$dir/out")" = AAAAAAAAAAAAAAAAAAAAAAA ] && says 1 tokens/s
result $? "text: the prompt and what was learnt"

writes 0 "$saved/step-30" --ids "65, 65" --tokens 3 --temperature 0
[ "$status" -eq 0 ] && [ "$(cat "$dir/out")" = "65 65 65 65 65" ]
result $? "ids in, ids out, from a checkpoint by its name"

# Hot enough that all tokens come; longer than the sequence of 16.
writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 3
cp "$dir/out" "$dir/text"
[ "$status" -eq 0 ] && [ "$(wc -w <"$dir/text")" -eq 63 ] &&
    [ "$(tr ' ' '\n' <"$dir/text" | sort -u | wc -l)" -gt 20 ]
result $? "a text of many tokens, longer than the sequence"

for layout in "2 --tp 2" "3 --pp 3" "4 --tp 2 --pp 2"; do
    # shellcheck disable=SC2086  # words are meant to be split
    writes $layout "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 3
    [ "$status" -eq 0 ] && cmp "$dir/out" "$dir/text" >"$dir/err" 2>&1
    result $? "the same text on ranks: $layout"
done

writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 3 --no-cache
[ "$status" -eq 0 ] && cmp "$dir/out" "$dir/text" >"$dir/err" 2>&1
result $? "the same text without a cache"

writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --seed 4
[ "$status" -eq 0 ] && ! cmp -s "$dir/out" "$dir/text"
result $? "another seed, another text"

writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 6 --top-k 1
[ "$status" -eq 0 ] && mv "$dir/out" "$dir/first" &&
    writes 0 "$saved" --ids "1 2 3" --tokens 60 --temperature 0 && cmp -s "$dir/out" "$dir/first"
result $? "among one the most likely is taken, as at temperature 0"

# ---- What is wrong

refused 0 "2 mistakes on the command line" "options" "$saved" --temprature 1 --top-k -1
! grep -q "at src/" "$dir/err"
result $? "a mistake is said without lines of our source"
refused 0 "one PATH is wanted" "no path"
refused 2 "one PATH is wanted" "two paths" "$saved" "$saved"
refused 0 "give one of them" "text and ids" "$saved" --prompt A --ids 65
refused 2 "$dir/nothing: No such file or directory" "a folder that is not there" "$dir/nothing" --tp 2
mkdir "$dir/empty"
refused 0 "$dir/empty has no checkpoint" "an empty folder" "$dir/empty"
refused 0 "the prompt has 17 tokens, the model's sequence 16" "a prompt that is too long" "$saved" \
    --prompt AAAAAAAAAAAAAAAAA
refused 2 "256, and the model's ids go from 0 to 255" "an id outside of the vocabulary" "$saved" \
    --ids "1 256" --pp 2
refused 0 '"-1" does not begin with a token' "an id below 0" "$saved" --ids "3 -1"
refused 0 "start as many with mpirun" "more ranks than there are" "$saved" --tp 2
refused 3 "tp 3 does not divide the model's 4 heads" "heads that tp does not divide" "$saved" --tp 3
refused 0 'no device "gpu"' "a device that there is not" "$saved" --device gpu

# Other options on the second rank: each would write something else, or wait.
: >"$dir/statuses"
# shellcheck disable=SC2016  # expanded by the ranks
run tools/mpirun.sh -np 2 /bin/sh -c \
    '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || set -- "$@" --seed 8 --tokens 3; exec "$@"' sh \
    "$BUILD/trine-generate" "$saved" --tp 2 --tokens 2
[ "$status" -ne 0 ] && [ ! -s "$dir/out" ] && says 1 "were started with different options:" &&
    says 1 "  --tokens" && says 1 "    3: rank 1, on " && says 1 "  --seed" && says 1 "    8: rank 1, on "
result $? "other choices on one rank"
# shellcheck disable=SC2016  # expanded by the ranks
run tools/mpirun.sh -np 2 /bin/sh -c \
    '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || set -- "$@" --tp 1 --pp 2; exec "$@"' sh \
    "$BUILD/trine-generate" "$saved" --tp 2 --tokens 2
[ "$status" -ne 0 ] && says 1 "  --tp" && says 1 "    1: rank 1, on " && says 1 "  --pp"
result $? "another layout on one rank"

# A vocabulary that is not that of bytes.
job 0 --data-path "$data" --vocab-size 70 --train-iters 1 --save "$dir/other"
refused 0 "give --ids" "text for another vocabulary" "$dir/other" --prompt A
writes 0 "$dir/other" --ids "65" --tokens 2
[ "$status" -eq 0 ] && [ "$(wc -w <"$dir/out")" -eq 3 ]
result $? "ids of another vocabulary"

# A byte of the weights: found, and said, before anything is written.
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
[ "$status" -eq 1 ] && messages 1 && says 1 "tp 65536 x pp 65536 are 4294967296 ranks, and there are 1"
result $? "more ranks than an int can count"

done_testing
