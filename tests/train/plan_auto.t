#!/bin/sh
# train_gpt --plan auto: all ranks train on the layout that trine-plan prints first, but for what was given; banner
# and log have planned beside measured; what cannot be planned is refused.
. tests/lib.sh
needs awk

token_file "$data" 20240520 1 4096 4096
model="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 256 --global-batch-size 8"
MACHINE="--hardware zen5-cores"

# first RANKS OPTIONS...: the layout that trine-plan puts first
first() {
    ranks=$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    "$BUILD/trine-plan" $MACHINE --ranks "$ranks" $model "$@" 2>&1 | sed -n 's/^ 1 .* GiB  //p'
}

# auto RANKS OPTIONS...: a training with it
auto() {
    ranks=$1
    shift
    rm -f "$log"
    # shellcheck disable=SC2086
    run_ranks "$ranks" "$TRAIN" --plan auto $MACHINE $model --train-iters 2 --threads 1 --data-path "$data" \
        --log "$log" "$@"
}

# takes LAYOUT: the banner has this plan, and the job has trained on it, with planned beside measured
takes() {
    set -- "$1" "$(sed -n 's/^plan     \(.*\): the fastest of [0-9]* layouts, planned .* s a step$/\1/p' "$dir/out")"
    [ "$status" -eq 0 ] && [ -n "$1" ] && [ "$1" = "$2" ] &&
        [ "$(grep -c '"planned_seconds":[0-9.e-]*[1-9]' "$log")" -eq 2 ] &&
        [ "$(grep -c 'step .* (planned [0-9.]* [mu]*s) | ' "$dir/out")" -eq 2 ]
}

auto 2
layout=$(first 2)
takes "$layout"
result $? "two ranks take what trine-plan puts first"

cp "$log" "$dir/planned"
# shellcheck disable=SC2086
run_ranks 2 "$TRAIN" $layout $model --train-iters 2 --threads 1 --data-path "$data" --log "$log"
same() { [ "$(numbers "$log")" = "$(numbers "$dir/planned")" ] && [ -n "$(numbers "$log")" ] && ! grep -q planned "$log"; }
check "a run with these options has the same numbers, and no plan in its log" same

auto 2 --pp 2 --schedule zb --micro-batch-size 2
takes "$(first 2 --pp 2 --schedule zb --micro-batch-size 2)" && prints 1 "plan     --dp 1 --tp 1 --pp 2 --schedule zb"
result $? "what is given is kept"

auto 2 --dp 2 --tp 1
takes "$(first 2 --dp 2 --tp 1)" && prints 1 "plan     --dp 2 --tp 1 --pp 1"
result $? "dp as well"

# look ARGUMENTS...: a plan without a job
look() {
    # shellcheck disable=SC2086
    run "$TRAIN" --plan auto $model --ranks 8 --dry-run --tp 4 "$@"
}
# shellcheck disable=SC2086
look $MACHINE
[ $status -eq 0 ] && grep -q "tp 4" "$dir/out" && grep -q "^device   cpu" "$dir/out"
result $? "without a job, for --dry-run, on the device of the machine: a CPU"
grep -q '^plan     --dp [12] --tp 4 --pp [12] .*: the fastest of [1-9][0-9]* layouts, planned [0-9.e-]* s a step$' "$dir/out" &&
    grep '^plan' "$dir/out" >"$dir/chosen" && look $MACHINE --explain && grep '^plan' "$dir/out" | cmp - "$dir/chosen"
result $? "and with --explain; both say which layout was chosen, and its time"
look --hardware h100
[ $status -eq 0 ] && grep -q "^device   cuda" "$dir/out"
result $? "or GPUs"
look --hardware h100 --device cpu
[ $status -eq 0 ] && grep -q "^device   cpu" "$dir/out" && says 1 "--device cpu: --hardware h100 is a machine of --device cuda"
result $? "a device that is given is kept, with a word"

# --memory below what the machine has: of the layouts that fit the fastest, another than without.
less() {
    # shellcheck disable=SC2086
    run "$TRAIN" --plan auto $MACHINE $model --ranks 8 --dry-run && grep '^layout' "$dir/out" >"$dir/any" || return 1
    bytes=$(awk '/^heaviest/ { printf "%.0f", $6 * 1048576 - 1024 }' "$dir/out")
    # shellcheck disable=SC2086
    run "$TRAIN" --plan auto $MACHINE $model --ranks 8 --dry-run --memory "$bytes" && prints 1 "verdict  fits: " &&
        ! grep '^layout' "$dir/out" | cmp -s - "$dir/any"
}
check "--memory: the fastest layout that fits" less
# refused NAME TEXT COMMAND...
refused() {
    name=$1 text=$2
    shift 2
    "$@"
    [ "$status" -eq 1 ] && says 1 "$text" && messages 1
    result $? "refused: $name"
}
refused "no machine" "--plan auto requires --hardware" job 0 --plan auto --data-path "$data" --global-batch-size 8
refused "a machine without a plan" "--hardware requires --plan auto" job 0 --hardware h100 --data-path "$data"
refused "no batch" "--plan auto requires --global-batch-size" job 0 --plan auto --hardware h100 --data-path "$data"
refused "an unknown machine, once" '--hardware h1000: unknown machine (known: ' auto 2 --hardware h1000
refused "no room for any" "no layout of 2 ranks fits in the 1024 bytes that --memory allows a rank" auto 2 --memory 1K
refused "GPUs on a machine of CPUs" "--device cuda: --hardware zen5-cores is a machine of --device cpu" auto 2 --device cuda
refused "a layout that is none" "no layout of 2 ranks is valid" auto 2 --tp 3
sed 's/\("node_ranks": {"value": \)128/\11/' hardware/zen5-cores.json >"$dir/small.json"
refused "more ranks than a node has" "2 ranks on a node, but nodes of --hardware $dir/small.json have at most 1 (node_ranks)" \
    auto 2 --hardware "$dir/small.json"
sed 's/\("memory_bytes": {"value": \)4e9/\11e6/' hardware/zen5-cores.json >"$dir/little.json"
refused "no room" "no layout of 2 ranks fits in the 1e+06 bytes" auto 2 --hardware "$dir/little.json"

done_testing
