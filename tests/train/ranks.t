#!/bin/sh
# Ranks that were started with different options, or that find different data under the same name: refused before
# the first step, with one message that lists each value and its ranks. Options that may differ are accepted. A
# run that resumes with other data continues with a warning.
. tests/lib.sh

# text FILE COUNT FIRST: COUNT uint16 tokens, from letter FIRST of the alphabet on
text() {
    {
        le32 20240520 1 "$2" 256
        head -c 1008 /dev/zero
        yes abcdefghijklmnopqrstuvwxyz | tr -d '\n' | head -c $(($2 + $3)) | tail -c "$2" | sed 's/./&\x00/g'
    } >"$1"
}

# Additional arguments of rank 2 and rank 3; a later option overrides an earlier one.
program=$TRAIN
TRAIN=$dir/train
cat >"$TRAIN" <<'END'
#!/bin/sh
case ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} in
    2) more=$RANK_2 ;;
    3) more=$RANK_3 ;;
    *) more= ;;
esac
set -f
# shellcheck disable=SC2086  # words are split, but not expanded to file names
exec "$PROGRAM" "$@" $more
END
chmod +x "$TRAIN"
export PROGRAM="$program" RANK_2='' RANK_3=''

# refused NAME TEXT...: four ranks exit with one message, which has each TEXT in a line, and no error trail into the
# library's source
refused() {
    name=$1
    shift
    messages 1 && ended && says 0 "    at " && prints 0 "step "
    good=$?
    for line in "$@"; do says 1 "$line" || good=1; done
    result $good "$name"
}

text "$data" 4096 0
text "$dir/shifted.bin" 4096 7
text "$dir/longer.bin" 4097 0
host=$(hostname | cut -c 1-63)

# ---- Data

RANK_2="--data-path $dir/shifted.bin" RANK_3=$RANK_2
job 4 --data-path "$data" --pp 2 --dp 2
refused "data that is shifted on half of the ranks" "have different data:" "  --data-path" \
    "    $data: 4096 tokens, 9216 bytes, hash " "; file 1 of 1, 4096 tokens in total: ranks 0-1, the first on $host" \
    "    $dir/shifted.bin: 4096 tokens, 9216 bytes, hash " \
    "; file 1 of 1, 4096 tokens in total: ranks 2-3, the first on $host"

RANK_2='' RANK_3="--data-path $dir/longer.bin"
job 4 --data-path "$data" --tp 2 --dp 2 --audit
refused "one additional token" "file 1 of 1, 4096 tokens in total: ranks 0-2, the first on $host" \
    "$dir/longer.bin: 4097 tokens, 9218 bytes, hash " "file 1 of 1, 4097 tokens in total: rank 3 on $host"

mkdir "$dir/a" "$dir/b"
for shard in 0 1 2; do cp "$data" "$dir/a/$shard.bin" && cp "$data" "$dir/b/$shard.bin"; done
text "$dir/b/1.bin" 4096 1
RANK_2="--data-path $dir/b/*.bin" RANK_3=''
job 4 --data-path "$dir/a/*.bin" --dp 4
refused "the first data file that differs is named" \
    "    $dir/a/1.bin: 4096 tokens, 9216 bytes, hash " "file 2 of 3, 12288 tokens in total: ranks 0-1, 3, the first on" \
    "    $dir/b/1.bin: 4096 tokens, 9216 bytes, hash " "file 2 of 3, 12288 tokens in total: rank 2 on $host"
rm "$dir/b/2.bin"
cp "$data" "$dir/b/1.bin"
job 4 --data-path "$dir/a/*.bin" --dp 4
refused "one data file fewer" "    $dir/a/2.bin: " "file 3 of 3, 12288 tokens in total: ranks 0-1, 3, the first on" \
    "    no file 3: 2 files, 8192 tokens in total: rank 2 on $host"

RANK_2="--data-path 1 $dir/a/0.bin 2 $dir/a/1.bin" RANK_3=''
job 4 --data-path 1 "$dir/a/0.bin" 1 "$dir/a/1.bin" --dp 4
refused "other weights of the same files" "    weights 1 1: ranks 0-1, 3, the first on $host" \
    "    weights 1 2: rank 2 on $host"

RANK_2='' RANK_3="--val-data-path $dir/shifted.bin"
job 4 --data-path "$data" --val-data-path "$data" --dp 4
refused "different validation data" "  --val-data-path" "    $dir/shifted.bin: "
RANK_3="--val-data-path $data"
job 4 --data-path "$data" --dp 4
refused "validation data on one rank only" "with different options:" "  --val-data-path" \
    "    not given: ranks 0-2, the first on $host" "    a path: rank 3 on $host"

# ---- Options

RANK_2="--lr 1e-3 --seed 7 --threads 2" RANK_3="--lr 2e-3 --clip-grad 0.5"
job 4 --data-path "$data" --dp 2 --pp 2
refused "learning rate, seed and clipping" "trine: the ranks of this job were started with different options:" \
    "  --lr" "    0.0003: ranks 0-1, the first on $host" "    0.001: rank 2 on $host" "    0.002: rank 3 on $host" \
    "  --seed" "    1234: ranks 0-1, 3, the first on $host" "    7: rank 2 on $host" "  --clip-grad" "    0.5: rank 3 on"
says 0 threads
result $? "the threads are not listed"

RANK_2='' RANK_3="--tp 2"
job 4 --data-path "$data" --dp 2 --pp 2
refused "an invalid layout on one rank" "different options:" "  --tp" "    1: ranks 0-2" "    2: rank 3 on"
RANK_3="--audit"
job 4 --data-path "$data" --dp 4
refused "--audit on one rank" "  --audit" "    off: ranks 0-2" "    on: rank 3 on"
RANK_3="--split-backward"
job 4 --data-path "$data" --dp 4
refused "--split-backward on one rank" "different options:" "  --split-backward" "    off: ranks 0-2" "    on: rank 3 on"
RANK_3="--eval-interval 2"
job 4 --data-path "$data" --val-data-path "$data" --dp 4
refused "different validation intervals" "  --eval-interval" "    0: ranks 0-2" "    2: rank 3 on"

RANK_3="--keep 3 --save-interval 2"
job 4 --data-path "$data" --dp 4 --save "$dir/saved"
refused "different save intervals" "  --save-interval" "    2: rank 3 on" "  --keep" "    3: rank 3 on"
RANK_3="--load auto"
job 4 --data-path "$data" --dp 4 --save "$dir/saved" --load "$dir/saved"
refused "--load auto and a path" "  --load" "    a path: ranks 0-2" "    auto: rank 3 on"

# ---- What may differ

mkdir "$dir/node"
cp "$data" "$dir/node/text.bin"
RANK_2="--data-path $dir/node/text.bin --val-data-path $dir/node/text.bin --log-interval 2 --timeout 100" RANK_3="--threads 2 --dp 2"
job 4 --data-path "$data" --val-data-path "$data" --pp 2
[ "$status" -eq 0 ] && messages 0 && prints 1 "step    3/3 | loss"
result $? "threads, timeouts and paths may differ, and defaults may be given explicitly"

# ---- A run that continues with other data

RANK_2='' RANK_3=''
job 2 --data-path "$data" --save "$dir/run" &&
    job 1 --data-path "$dir/node/text.bin" --save "$dir/run" --load auto --train-iters 4 && prints 0 "data differ" &&
    job 2 --data-path "$dir/longer.bin" --save "$dir/run" --load auto --train-iters 5 && [ "$status" -eq 0 ] &&
    prints 1 "resumed from $dir/run/step-4: 4 steps" && prints 1 "  training data differ: 4096 tokens in 1 file (hash " &&
    prints 1 ") in the checkpoint, 4097 in 1 (" && [ -d "$dir/run/step-5" ]
result $? "a run that continues with other data reports it; with the same data at another path it does not"

done_testing
