#!/bin/sh
# A schedule that --export-schedule wrote makes the same programs with --schedule FILE, and is written again byte by
# byte.
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
done_testing
