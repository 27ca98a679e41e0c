#!/bin/bash
# docs/recipes.md: its forecasts, and its commands with a smaller text, model and number of steps.
set -eu
. tests/lib.sh

page=docs/recipes.md
mkdir "$dir/home" "$dir/home/blimp"
ln -s "$(cd "$BUILD" && pwd)" "$dir/home/build"
ln -s "$PWD/tools" "$dir/home/tools"
head -c 200000 docs/checkpoints.md docs/design.md docs/testing.md | grep -v '^==>' >"$dir/home/corpus.txt"
head -c 3000 README.md >"$dir/home/held_out.txt"
echo '{"sentence_good": "A run is saved.", "sentence_bad": "A run are saved.", "UID": "verb"}' >"$dir/home/blimp/verb.jsonl"

# block N: the N-th block of indented lines of "The commands"
block() {
    awk -v wanted="$1" '/^## / { on = /^## The commands/ } !on { next }
        /^    / { if (!before) n++; before = 1; if (n == wanted) print substr($0, 5); next } { before = 0 }' $page
}
# 256 tokens a step, of which four are checkpoints by their number.
block 1 | sed 's/--vocab-size 16384/--vocab-size 400/' >"$dir/home/commands"
block 2 | sed 's/--num-layers 6 /--num-layers 2 /; s/--hidden-size 256 /--hidden-size 32 /; s/--seq-length 256/--seq-length 64/
    s/--global-batch-size 128/--global-batch-size 4/; s/--micro-batch-size 16/--micro-batch-size 2/
    s/--train-iters 4300/--train-iters 12/; s/--eval-interval 430/--eval-interval 6/; s/--lr-warmup-iters 100/--lr-warmup-iters 2/
    s/--lr-wsd-decay-iters 430/--lr-wsd-decay-iters 3/; s/--save-at-tokens [^ ]*/--save-at-tokens 256,1K,2K/; s/--save-interval 200/--save-interval 2/' \
    >"$dir/home/recipe.txt"
all() {
    [ "$(grep -c build/ "$dir/home/commands")" -eq 6 ] && [ "$(grep -c . "$dir/home/recipe.txt")" -eq 9 ] || return 1
    (cd "$dir/home" && bash -eu commands) || return 1
    # 1, 4 and 8 reach their counts; --keep 2 leaves 10 and 12
    [ "$(cd "$dir/home/run" && ls -d step-*[0-9] | sort -V | tr '\n' ' ')" = "step-1 step-4 step-8 step-10 step-12 " ] &&
        grep -q '"pairs":1' "$dir/home/pairs-step-8.json" && [ -s "$dir/home/model/tokenizer.json" ]
}
check "the commands train, score pairs at each checkpoint, and export" all

# Tables of forecasts are those of the planner.
tests/docs/console.sh $page >"$dir/console" 2>&1 || true
check "the forecasts are the planner's" sh -c "! grep '^not ok' '$dir/console' && grep -q '^ok 2' '$dir/console'"
done_testing
