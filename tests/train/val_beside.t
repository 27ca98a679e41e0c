#!/bin/sh
# The validation file beside the training's: found, said in the banner, overridden, switched off.
. tests/lib.sh

cd "$dir" && mkdir none || exit 1
TRAIN=$OLDPWD/$TRAIN
yes "the cat sat." | head -400 >text
"$OLDPWD/$BUILD/trine-tokens" --out text text >out && cp text_train.bin other.bin && cp text_train.bin none/text_train.bin
result $? "token files"

# trains ARGUMENTS...: a run of three steps on one rank
trains() {
    # shellcheck disable=SC2086  # words are meant to be split
    run "$TRAIN" $SMALL "$@"
}
# validates: the run has, before its first step and after its last
validates() {
    [ "$status" -eq 0 ] && prints 2 "validation loss"
}
# says_so: the banner does
said="validated on text_val.bin, found beside it: 520 tokens (--val-data-path none turns validation off)"

trains --data-path text_train.bin
validates && prints 1 "$said"
result $? "the file beside --data-path"
cp out by_default

trains --data-path text_train.bin --val-data-path text_val.bin
validates && prints 0 "validated on" && [ "$(grep 'validation loss' out)" = "$(grep 'validation loss' by_default)" ]
result $? "the same file, given"

trains --data-path text_train.bin --val-data-path none
[ "$status" -eq 0 ] && prints 0 "validat"
result $? "none"
for file in other.bin none/text_train.bin 'text_tr*.bin'; do
    trains --data-path "$file"
    [ "$status" -eq 0 ] && prints 0 "validat"
    result $? "no such file beside $file"
done

trains --data-path text_train.bin --eval-interval 2
[ "$status" -eq 0 ] && prints 3 "validation loss"
result $? "--eval-interval counts it as a validation"
trains --data-path text_train.bin --val-data-path none --eval-interval 2
[ "$status" -eq 1 ] && says 1 "--eval-interval requires --val-data-path"
result $? "but not none"

# What is said of a file is not more than before: --dry-run reads no tokens of it.
cp text_val.bin kept && : >text_val.bin
trains --data-path text_train.bin --dry-run
[ "$status" -eq 0 ]
result $? "--dry-run does not open it"
trains --data-path text_train.bin
[ "$status" -eq 1 ] && messages 1 && says 1 "text_val.bin" && says 1 "; --val-data-path none trains without validation"
result $? "a file that cannot be used is refused, with the way out"
mv kept text_val.bin

trains --data-path text_train.bin --save run
grep -qx -- '--val-data-path text_val.bin' run/step-3/options.txt
result $? "a checkpoint's options name it"
trains --data-path text_train.bin --val-data-path none --save without
grep -qx -- '--val-data-path none' without/step-3/options.txt
result $? "or that there is none"

done_testing
