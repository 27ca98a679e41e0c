#!/bin/sh
# examples/own_model.c: a family that is not built in. Every layout reaches the losses of one rank; checkpoints resume in
# another layout and generate text; a program that does not know the family refuses them.
. tests/lib.sh

OWN=$BUILD/own_model
token_file "$data" 20240520 1 4096 4096
batch="--data-path $data --global-batch-size 8 --train-iters 4 --hidden-dropout 0.1 --attention-dropout 0.1"

own() { # own RANKS ARGUMENTS...
    ranks=$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run_ranks "$ranks" "$OWN" $SMALL $batch "$@"
}
trained() {
    [ "$status" -eq 0 ] && messages 0
}
# near LOG WANTED STEPS: steps, losses and norms equal those of one rank. In fp32, another order of additions changes
# some 1e-7.
near() {
    numbers "$2" >"$dir/want" && numbers "$1" >"$dir/got" &&
        paste -d: "$dir/want" "$dir/got" | awk -F: -v steps="$3" '
            { apart = ($2 - $4) / $4; if (apart > 2e-6 || apart < -2e-6) bad = 1; lines++ }
            END { exit bad || lines != 3 * steps }'
}

own 1 --log "$dir/one.jsonl" --save "$dir/one"
trained
result $? "one rank"

number_of_layout=0
while read -r ranks options; do
    number_of_layout=$((number_of_layout + 1))
    # shellcheck disable=SC2086  # words are meant to be split
    own "$ranks" --log "$dir/$number_of_layout.jsonl" --save "$dir/$number_of_layout" $options </dev/null
    trained && near "$dir/$number_of_layout.jsonl" "$dir/one.jsonl" 4
    result $? "$ranks ranks: $options"
done <<'END'
8 --dp 2 --tp 2 --pp 2 --zero 3
8 --dp 2 --tp 2 --pp 2 --zero 3 --split-backward --recompute-granularity full --sequence-parallel
4 --dp 2 --pp 2 --zero 2 --split-backward --recompute-granularity selective
4 --tp 4 --split-backward --sequence-parallel
END

own 4 --dp 2 --tp 2 --zero 1 --train-iters 6 --load "$dir/1" --log "$dir/resumed.jsonl"
trained && own 1 --train-iters 6 --load "$dir/one" --log "$dir/alone.jsonl" && trained &&
    near "$dir/resumed.jsonl" "$dir/alone.jsonl" 2
result $? "a checkpoint of 8 ranks resumed on 4, in another layout, matches one rank"

run_ranks 1 "$OWN" generate "$dir/one" 12
[ "$status" -eq 0 ] && cp "$dir/out" "$dir/text" && [ "$(wc -w <"$dir/text")" -eq 12 ] &&
    run_ranks 4 "$OWN" generate "$dir/1" 12 && [ "$status" -eq 0 ] && cmp -s "$dir/out" "$dir/text"
result $? "one rank and four generate the same text"

[ ! -e "$dir/one/step-4/config.json" ] && job 1 --data-path "$data" --load "$dir/one" &&
    [ "$status" -eq 1 ] && says 1 'unknown model family "own" (known: gpt2, llama'
result $? "a program without the family refuses its checkpoint"

run "$OWN" --vocab-size 256 --tp 2 --explain layers
[ "$status" -eq 0 ] && prints 1 "layers of own" && prints 1 "column mlp.fc_in " && prints 3 "all-reduce      -"
result $? "--explain layers prints the family's layer lists"

done_testing
