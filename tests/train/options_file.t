#!/bin/sh
# Options from a file: train_gpt takes them, each checkpoint has those of its run, and they make the same run.
. tests/lib.sh

token_file "$dir/a train.bin" 20240520 1 2000 2000
cat >"$dir/options" <<OPTIONS
# sizes
--num-layers 2 --hidden-size 32   # narrow
--num-attention-heads 4 --seq-length 16
--family llama --rope-scaling llama3 --rope-scaling-factor 2 --rope-low-freq-factor 1
--rope-high-freq-factor=4 --rope-original-length 8
--data-path '$dir/a train.bin'
--train-iters 3 --global-batch-size 4 --threads 1 --lr 1e-2
OPTIONS

# same NAME: two folders of checkpoints have equal models and states
same() {
    for file in model.safetensors optimizer.safetensors manifest.json; do
        cmp "$dir/one/step-4/$file" "$dir/$1/step-4/$file" || return 1
    done
}

run "$TRAIN" "@$dir/options" --train-iters 4 --log-interval 2 --save "$dir/one"
[ "$status" -eq 0 ] && [ -s "$dir/one/step-4/options.txt" ] && prints 1 'step    4/4'
result $? "options from a file, of which a later one is overridden"

run "$TRAIN" --train-iters 9 "@$dir/one/step-4/options.txt" --save "$dir/two"
[ "$status" -eq 0 ] && same two
result $? "the options in a checkpoint make the same run"

sed "s|$dir/one|$dir/two|" "$dir/one/step-4/options.txt" | cmp - "$dir/two/step-4/options.txt"
result $? "and are its options again, but for the changed one"

run_ranks 2 "$TRAIN" "@$dir/one/step-4/options.txt" --save "$dir/three" --dp 2
[ "$status" -eq 0 ] && grep -qx -- '--dp 2' "$dir/three/step-4/options.txt" &&
    ! grep -q -- '--dp' "$dir/one/step-4/options.txt"
result $? "what was left to the number of ranks is left to it"

# The sizes are those in use, given, left out or read from a folder.
token_file "$dir/data" 20240520 1 641 641
for family in gpt2 llama; do
    set -- "$TRAIN" --family $family --num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --threads 1 \
        --data-path "$dir/data" --train-iters 2 --save "$dir/$family" --save-interval 1 --load auto
    run "$@"
    cp "$dir/$family/step-2/options.txt" "$dir/through" && rm -r "$dir/$family/step-2"
    [ "$status" -eq 0 ] && run "$@" && prints 1 'resumed from' && cmp "$dir/through" "$dir/$family/step-2/options.txt" &&
        ! grep -q '^--ffn-hidden-size 0$' "$dir/through"
    result $? "$family: a run that goes on writes the options of one that was not interrupted"
done

run_ranks 2 "$TRAIN" "@$dir/options" --train-iters 1 --log-interval 1 --learning-rate=1e-3 --lr 2e-3 --threads 1 --dp 2
[ "$status" -eq 0 ] && says 1 "warning: " &&
    says 1 "warning: --learning-rate 1e-3 is overridden by --lr 2e-3, which comes after it"
result $? "a value that another one overrides is said, once for all ranks; one of a file is not"

run "$BUILD/trine-plan" --hardware h100 --hardware a100-selene --ranks 8 "@$dir/options" --global-batch-size 8
says 1 "warning: --hardware h100 is overridden by --hardware a100-selene, which comes after it"
result $? "in every program"

printf '%s\n' '--lr 1e-2' '--lr 2e-2' >"$dir/options"
run "$TRAIN" "@$dir/options" --dry-run
messages 1 && says 1 "$dir/options:2: --lr 2e-2: line 1 has --lr 1e-2; leave one of them out"
result $? "one file with two values of an option is refused"

printf '%s\n' '--lr 1e-2' '--zero 4' >"$dir/options"
run_ranks 2 "$TRAIN" "@$dir/options"
messages 1 && says 1 "$dir/options:2: --zero: invalid value \"4\"; expected 0, 1, 2 or 3" && ended
result $? "an error is named with file and line, once"

run "$BUILD/trine-plan" "@$dir/options"
messages 1 && says 1 "$dir/options:1: unknown option --lr"
result $? "in every program"

done_testing
