#!/bin/sh
# A schedule that --export-schedule wrote makes the same programs with --schedule FILE, and is written again byte by
# byte. One whose stages take the messages of two chunks in another order than they leave trains, with the losses of 1f1b.
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096

# programs FILE ARGUMENTS...: the programs of all stages
programs() {
    to=$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run env -i "$TRAIN" $SMALL --num-layers 6 --pp 4 --global-batch-size 6 --explain "$@"
    [ "$status" -eq 0 ] && sed -n 's/; bubble by formula.*//;/^stage 0: /,$p' "$dir/out" >"$to" && [ "$(wc -l <"$to")" -gt 100 ]
}

# again SCHEDULE CHUNKS
again() {
    programs "$dir/want" --schedule "$1" --num-virtual-stages-per-pipeline-rank "$2" \
        --export-schedule "$dir/first.csv" &&
        programs "$dir/got" --schedule "$dir/first.csv" --export-schedule "$dir/second.csv" &&
        cmp "$dir/first.csv" "$dir/second.csv" && diff "$dir/want" "$dir/got"
}

for order in naive:1 gpipe:1 1f1b:1 interleaved:1 interleaved:2 zb:1 zb:2 zbv:2 v-half:2 bfs:2; do
    again "${order%:*}" "${order#*:}"
    result $? "$order: the same programs from its file"
done

# Stage 1 takes chunk 3's micro-batch 0 before chunk 1's micro-batch 2, which stage 0 has sent first; stage 0 takes
# gradients likewise.
cat >"$dir/crossed.csv" <<END
0F0,0F1,,0F2,2F0,2F1,,2F2,,2I0,2W0,2I1,2W1,,0I0,0W0,,,,2I2,2W2,0I1,0I2,0W1,0W2
,1F0,1F1,,,3F0,1F2,3I0,3W0,3F1,3I1,3W1,3F2,1I0,1W0,1I1,3I2,1W1,3W2,,,1I2,1W2,,
END
for n in 3 77 200 391; do spoil "$data" $n; done

# trained NAME OPTIONS...: the numbers of three steps, and of validations, in $dir/NAME
trained() {
    to=$dir/$1
    shift
    rm -f "$log"
    job 2 --num-layers 4 --pp 2 --global-batch-size 3 --data-path "$data" --val-data-path "$data" --eval-interval 1 \
        --eval-iters 1 --log "$log" "$@"
    [ "$status" -eq 0 ] && grep -o '"\(step\|loss\|grad_norm\|val_loss\)":[^,}]*' "$log" >"$to" && [ "$(wc -l <"$to")" -ge 12 ]
}

# crossed OPTIONS...
crossed() {
    trained want --schedule 1f1b "$@" && trained got --schedule "$dir/crossed.csv" "$@" && diff "$dir/want" "$dir/got"
}
for with in "" --one-queue "--zero 3 --audit"; do
    # shellcheck disable=SC2086
    crossed $with
    result $? "messages of two chunks in another order ${with:-with a queue per edge}: the losses, norms and validations of 1f1b"
done
done_testing
