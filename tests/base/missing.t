#!/bin/bash
# A file or folder that is not there: every program names the option that it came from, for every option that reads one.
# The options are those of the tables themselves (--help=paths), so that a new one without a line here fails.
. tests/lib.sh

bin=$(realpath "$BUILD")
tiny="--num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --train-iters 1 --threads 1"
cd "$dir" || exit 1
seq 1000 >text
# shellcheck disable=SC2086 # words
"$bin/trine-tokens" --out d text >said 2>&1 &&
    "$bin/train_gpt" $tiny --data-path d_train.bin --save run --log log >>said 2>&1
result $? "a run"

# with PROGRAM ROW: what else the program needs to open the file of this row; false: no line
with() {
    case $1:$2 in
    train_gpt:--data-path) echo "$tiny" ;;
    train_gpt:--cuda-library) echo "$tiny --data-path d_train.bin --device cuda" ;;
    train_gpt:--hardware) echo "$tiny --data-path d_train.bin --plan auto --global-batch-size 4" ;;
    train_gpt:--pretrained-checkpoint) echo "$tiny --data-path d_train.bin --load auto --save new" ;;
    train_gpt:--adapter) echo "--data-path d_train.bin --val-data-path none --load run" ;;
    train_gpt:--load) echo "--data-path d_train.bin --val-data-path none" ;;
    train_gpt:--schedule | train_gpt:--val-data-path | train_gpt:--tokenizer) echo "$tiny --data-path d_train.bin" ;;
    trine-tokens:--tokenizer) echo "--out new text" ;;
    trine-tokens:argument*) echo "--out new" ;;
    trine-export:--adapter) echo "run new" ;;
    trine-verify:--against) ;;
    trine-plan:--hardware) echo "--ranks 2 --global-batch-size 4" ;;
    trine-plan:--csv | trine-plan:--calibrate) echo "--hardware h100" ;;
    trine-doctor:--cuda-library) echo "--device cuda" ;;
    trine-eval:--text | trine-eval:--data | trine-eval:--choices | trine-eval:--pairs) echo run ;;
    trine-eval:--tokenizer) echo "run --text text" ;;
    trine-eval:--adapter) echo "run --data d_val.bin" ;;
    trine-eval:--cuda-library) echo "run --data d_val.bin --device cuda" ;;
    trine-eval:argument*) echo "--data d_val.bin" ;;
    trine-generate:--tokenizer | trine-generate:--adapter) echo "run --prompt a --tokens 1" ;;
    trine-generate:--cuda-library) echo "run --prompt a --tokens 1 --device cuda" ;;
    trine-generate:argument*) echo "--prompt a --tokens 1" ;;
    trine-report:--*) echo log ;;
    trine-tokenizer:argument*) echo "--vocab-size 300 --out new" ;;
    trine-export:argument1) echo ;;
    trine-report:argument*) ;;
    *:@) ;;
    *) return 1 ;;
    esac
}

# names PROGRAM ROW PATH: the message begins with the option and the path, and the program fails
names() {
    local program=$1 row=$2 path=$3 words want status=0
    words=$(with "$program" "$row") || { echo "$program $row: no line in this test" && return 1; }
    want="\(^trine\|\]\|no usable GPU\): $row $path"
    case $row in
    argument2) return 0 ;; # as the first one, or an output
    argument1) set -- "$path" && want=$path ;;
    @) set -- "@$path" && want=$path ;;
    *) set -- "$row" "$path" ;;
    esac
    # shellcheck disable=SC2086 # words
    case $program:$row in
    trine-export:argument1) set -- "$@" new ;;
    trine-verify:--against) set -- "$@" -- $tiny --data-path d_train.bin ;;
    *) set -- $words "$@" ;;
    esac
    (timeout 60 "$bin/$program" "$@" </dev/null >said 2>&1) || status=$?
    if [ $status -eq 0 ] || ! grep -q "$want" said; then
        echo "$program $*: status $status: $(head -3 said)"
        return 1
    fi
}

for program in $(cd "$bin" && ls -d train_gpt trine-* | grep -v '[.]'); do
    rows=$("$bin/$program" --help=paths | sed -n 's/ input$//p; s/ tokens$//p') faults=0
    for row in $rows; do
        names "$program" "$row" nowhere.x || faults=$((faults + 1))
        names "$program" "$row" none/nowhere || faults=$((faults + 1))
    done >wrong
    cp wrong err
    result $faults "$program: a file that is not there, by its option"
done

# Another table of the same program, the trainer's, has an option of this name, too, which is not given there.
(timeout 60 "$bin/trine-plan" --hardware none/nowhere --ranks 2 --global-batch-size 4 --calibrate log --out new </dev/null >out 2>err)
grep -q '^trine: --hardware none/nowhere: No such file' err
result $? "trine-plan, which reads two tables"

done_testing
