#!/bin/sh
# --save-at-tokens: checkpoints after the steps that reach given counts of tokens, which --keep leaves.
. tests/lib.sh

token_file "$data" 20240520 1 2000 2000
saved=$dir/saved
# has STEPS...: these checkpoints are there, and no others
has() {
    [ "$(cd "$saved" && ls -d step-* | tr '\n' ' ')" = "$(printf 'step-%s ' "$@")" ]
}

# 64 tokens a step: 100 are reached by step 2, 130 by step 3, 256 by step 4, 0.5 M never.
job 2 --data-path "$data" --dp 2 --global-batch-size 4 --train-iters 5 --save "$saved" --save-interval 1 --keep 1 \
    --save-at-tokens 100,130,256,500K --lr-decay-style constant
[ "$status" -eq 0 ] && has 2 3 4 5
result $? "checkpoints at counts of tokens, and the newest"
[ "$(cat "$saved/step-3/keep.txt")" = "saved at 130 tokens (--save-at-tokens); --keep does not remove it" ] &&
    [ ! -e "$saved/step-5/keep.txt" ] && grep -qx -- '--save-at-tokens 100,130,256,500K' "$saved/step-5/options.txt"
result $? "say which they are"

touch "$saved/step-5/keep.txt"
job 0 --data-path "$data" --global-batch-size 4 --train-iters 8 --save "$saved" --save-interval 1 --keep 2 --load auto \
    --lr-decay-style constant
[ "$status" -eq 0 ] && has 2 3 4 5 7 8
result $? "stay when the run goes on, and do not count; a user's own, too"

rm -rf "$saved"
job 0 --data-path "$data" --global-batch-size 4 --train-iters 4 --save "$saved" --save-at-tokens 128 --lr-decay-style constant
[ "$status" -eq 0 ] && has 2 4
result $? "without another interval"

job 2 --data-path "$data" --save "$saved" --save-at-tokens 2K,1500
messages 1 && says 1 '--save-at-tokens: "1500" is not above the count before it' && ended
result $? "a list that does not ascend"
job 0 --data-path "$data" --save-at-tokens 2K
messages 1 && says 1 "--save-at-tokens requires --save"
result $? "without --save"

# ---- What a save cannot write is said before the first step, and stays

for name in latest step-3; do
    rm -rf "$saved" && mkdir "$saved"
    if [ $name = latest ]; then mkdir "$saved/latest" && echo mine >"$saved/latest/mine"; else echo mine >"$saved/$name"; fi
    job 2 --data-path "$data" --dp 2 --global-batch-size 4 --train-iters 3 --save "$saved" --log "$dir/none"
    [ "$status" -eq 1 ] && messages 1 && says 1 "$saved/$name: is " && [ ! -s "$dir/none" ] && grep -rq mine "$saved/$name" &&
        [ "$(ls "$saved")" = $name ]
    result $? "a save that would find $name in its way is refused before the first step"
done

done_testing
