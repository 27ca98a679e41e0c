#!/bin/bash
# TEST longer=lost timeout=900
# Reads from a folder while a job saves there after every step and keeps one checkpoint: a listed checkpoint
# may be removed before it is opened, or while it is read. Then a newer one exists and must be loaded.
# TRINE_READERS is the number of readings (12; in the full tests 100).
. tests/lib.sh

readers=${TRINE_READERS:-$([ -n "${TRINE_FULL:-}" ] && echo 100 || echo 12)}
ckpt=$dir/ckpt
token_file "$data" 20240520 1 641 641

# shellcheck disable=SC2086  # words are meant to be split
"$TRAIN" $SMALL --data-path "$data" --num-layers 2 --hidden-size 8 --num-attention-heads 2 --train-iters 1000000000 \
    --save "$ckpt" --save-interval 1 --keep 1 --log-interval 0 >"$dir/writer" 2>"$dir/err" &
launcher=$!
eventually 300 [ -e "$ckpt/latest" ]

# newest: the newest step that the writer has saved
newest() {
    sed -n 's|^saved .*/step-\([0-9]*\): .*|\1|p' "$dir/writer" | tail -n 1
}

# reading NUMBER: generates text, or (every third) starts a run, from a checkpoint at least as new as the newest before
reading() {
    before=$(newest)
    if [ $(($1 % 3)) -eq 0 ]; then
        # shellcheck disable=SC2086  # words are meant to be split
        run "$TRAIN" $SMALL --data-path "$data" --num-layers 2 --hidden-size 8 --num-attention-heads 2 --train-iters 1 \
            --load "$ckpt"
        began=$(sed -n 's|^resumed from .*/step-\([0-9]*\): .*|\1|p' "$dir/out")
        [ "${began:-0}" -ge "$before" ] || return 1
    else
        run tools/mpirun.sh -np 4 "$BUILD/trine-generate" "$ckpt" --tp 2 --pp 2 --prompt A --tokens 1
    fi
    [ "$status" -eq 0 ] && ! grep -q -e "skipped .*/step-" -e "which does not exist" "$dir/out" "$dir/err"
}

bad=0
for n in $(seq "$readers"); do
    reading "$n" || {
        bad=$((bad + 1))
        sed "s/^/# reading $n, status $status: /" "$dir/err"
        grep -h -e "skipped .*/step-" -e "which does not exist" "$dir/out" | sed "s/^/# reading $n: /"
    }
done
echo "# $readers readings, $bad bad; the writer reached step $(newest)"
[ $bad -eq 0 ] && kill -0 $launcher
result $? "$readers readings while a writer keeps one checkpoint"

kill -TERM $launcher
finish
[ "$status" -eq 75 ] && [ "$(find "$ckpt" -name 'step-*' | wc -l)" -eq 1 ]
result $? "the writer was not disturbed"

done_testing
