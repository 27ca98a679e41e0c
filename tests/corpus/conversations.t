#!/bin/bash
# The conversations that the project ships, examples/conversations.jsonl, and the questions of the demo about them.
set -eu
. tests/lib.sh
export BUILD

rows=examples/conversations.jsonl
tests/docs/small_model.sh "$dir/model" tokenizer
encode=("$BUILD/trine-tokens" --tokenizer "$dir/model" --chat)

# The demo's samples are of SEQ tokens of SmolLM2's tokenizer, which has 49,152; one of 469 makes at least as many of a row.
# shellcheck disable=SC2016  # the script's own variable
seq=$(sed -n 's/^seq=${SEQ:-\([0-9]*\)}.*/\1/p' tools/demo_smollm2.sh)
accepted() {
    run "${encode[@]}" --seq-length "$seq" --out "$dir/talks" $rows
    [ "$status" -eq 0 ] && prints 1 "$dir/talks_train.bin: " && prints 1 "$dir/talks_val.bin: " &&
        prints 1 "$(wc -l <$rows) rows" && prints 0 "left out" && prints 0 "cut off"
}
check "every row is accepted, and none is too long for the demo's samples of $seq tokens" accepted

"${encode[@]}" --seq-length "$seq" --show "$(wc -l <$rows)" $rows >"$dir/shown"

many() {
    [ "$(grep -c '^row [0-9]*: ' "$dir/shown")" -eq "$(wc -l <$rows)" ] && [ "$(wc -l <$rows)" -ge 300 ]
}
check "300 rows and more, each shown" many
trained() { # as many supervised ends as turns of the assistant, and nothing else
    turns=$(grep -c '^<|im_start|>assistant$' "$dir/shown")
    [ "$turns" -ge "$(wc -l <$rows)" ] && [ "$(grep -c '^\[\[..*<|im_end|>\]\]$' "$dir/shown")" -eq "$turns" ] &&
        [ "$(grep -c '\[\[\|\]\]' "$dir/shown")" -eq "$turns" ]
}
check "every answer is supervised, with its end" trained
kinds() {
    [ "$(grep -c '^<|im_start|>user$' "$dir/shown")" -gt "$(wc -l <$rows)" ] && grep -qF '"role": "system"' $rows
}
check "some rows have several turns, some a system message" kinds

twice() {
    sort $rows | uniq -d >"$dir/twice"
    [ ! -s "$dir/twice" ] || { cat "$dir/twice"; return 1; }
}
check "no row is there twice" twice

# Options that answers name are options.
named() {
    for program in train_gpt trine-tokens trine-generate trine-eval trine-doctor trine-plan trine-prove trine-verify trine-report; do
        "$BUILD/$program" --help
    done >"$dir/help"
    bad=0
    for option in $(grep -o -e '--[a-z][-a-z0-9]*' $rows | sort -u); do
        case $option in --hostfile | --bind-to | --map-by | --shm-size) continue ;; esac # of mpirun and docker
        grep -q -e "$option\b" "$dir/help" || { echo "no program has $option"; bad=1; }
    done
    return $bad
}
check "every option that a row names exists" named

# The questions of the demo are in none of the rows: what it shows is not a row learnt by heart.
new() {
    sed -n "/^ask()/,/^END/p" tools/demo_smollm2.sh | grep '?$' >"$dir/questions"
    [ "$(wc -l <"$dir/questions")" -eq 3 ] || return 1
    while read -r question; do
        ! grep -qF "\"$question\"" $rows || { echo "a row asks: $question"; return 1; }
    done <"$dir/questions"
}
check "the demo's three questions are in no row" new
done_testing
