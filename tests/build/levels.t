#!/bin/bash
# TEST full=levels timeout=5400 ranks=2
# make MARCH=any: each level has the bits of a build for it, in every type; emulated processors of 2008 and 2013 choose v2
# and v3 and train; ranks on two processors agree on the lower one's level, and one for another build is refused. On x86-64.
set -eu
. tests/lib.sh
needs perl make

case $(uname -m) in x86_64) ;; *) skip_all "levels of x86-64" ;; esac
packages build levels 2>"$dir/why" || skip_all "qemu-user: $(tail -n 1 "$dir/why")"
perl -e 'binmode STDOUT; srand 5; print pack "V256", 20240520, 1, 9001, (0) x 253; print pack "v*", map { int rand 256 } 1 .. 9001' >"$data"

# build NAME MARCH: its trainer
build() {
    make -s CUDA=0 MARCH="$2" BUILD="$BUILD/levels/$1" "$BUILD/levels/$1/train_gpt"
}
program() {
    echo "$(realpath "$BUILD")/levels/$1/train_gpt"
}
check "MARCH=any is built" build any any
symbols() {
    nm -g --defined-only "$BUILD/levels/any/level/v3.o" | awk '$2 != "C" { print $3 }' | sort | tr '\n' ' '
}
check "of a level only its tables are seen" test "$(symbols)" = "cpu_kernels_v3 reduce_kernels_v3 "

# Everything that a level computes: dropout, two ranks' sums, wide and narrow products.
model="--num-layers 2 --hidden-size 96 --num-attention-heads 4 --seq-length 64 --vocab-size 256 --micro-batch-size 2
    --global-batch-size 8 --train-iters 4 --threads 1 --hidden-dropout 0.1 --attention-dropout 0.1 --lr 1e-2 --data-path $data"
# train FOLDER PROGRAM ARGUMENTS...
train() {
    local folder=$dir/$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run_ranks 2 "$@" $model --dp 2 --save "$folder" --save-interval 4 --log "$folder.log"
}
# equal A B: two trainings
equal() {
    numbers "$dir/$1.log" >"$dir/a" && numbers "$dir/$2.log" >"$dir/b" && [ -s "$dir/a" ] && cmp "$dir/a" "$dir/b" &&
        for file in model optimizer; do cmp "$dir/$1/step-4/$file.safetensors" "$dir/$2/step-4/$file.safetensors"; done
}

train probe "$(program any)"
highest=$(sed -n 's/^device   cpu, level \([^ ,]*\).*/\1/p' "$dir/out")
echo "# this processor: $highest"
all="v2 v3 v4 v4-bf16 v4-amx"
for level in v2 v3 v4 v4-bf16; do
    case " ${all%%"$highest"*}$highest " in
        *" $level "*) ;;
        *)
            skip "$level" "this processor has $highest"
            continue
            ;;
    esac
    march=x86-64-$level
    [ $level != v4-bf16 ] || march='x86-64-v4 -mavx512bf16'
    check "a build for $level" build "$level" "$march"
    for type in fp32 fp16 bf16; do
        as=$([ $type = fp32 ] || echo "--$type")
        if [ "$type$level" != bf16v4-bf16 ] && [ $type = bf16 ]; then
            for who in any "$level"; do
                # shellcheck disable=SC2086  # no word, or one
                train refused "$(program $who)" $as --cpu-level $level
                [ "$status" = 1 ] && says 1 "this rank computes at $level; use --device ref"
                result $? "$who at $level refuses bf16"
            done
            continue
        fi
        # shellcheck disable=SC2086  # no word, or one
        train "any-$type-$level" "$(program any)" $as --cpu-level $level
        # shellcheck disable=SC2086
        train "own-$type-$level" "$(program $level)" $as --cpu-level $level
        check "$level, $type: the bits of a build for it" equal "any-$type-$level" "own-$type-$level"
    done
    rm -rf "$dir"/*/step-4
done
# The highest without a word, on both sides.
if [ "$highest" = v4-amx ]; then
    train any-amx "$(program any)" --bf16
    train own-amx "$(program v4-bf16)" --bf16
    grep -q "^device   cpu, level v4-amx, " "$dir/out"
    result $? "a build for v4-bf16 computes at v4-amx"
    check "v4-amx, bf16: the bits of a build for v4-bf16" equal any-amx own-amx
else
    skip "v4-amx" "this processor has $highest"
fi
differ() {
    ! cmp -s "$dir/any-fp32-v2.log" "$dir/any-fp32-v3.log"
}
[ "$highest" = v2 ] || check "levels differ" differ

# ---- Other processors

emulated() { # emulated CPU ARGUMENTS...: one rank
    local cpu=$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run_ranks 1 qemu-x86_64-static -cpu "$cpu" "$(program any)" $SMALL --data-path "$data" "$@"
}
for pair in Nehalem:v2 Haswell:v3; do
    emulated "${pair%:*}"
    [ "$status" = 0 ] && grep -q "^device   cpu, level ${pair#*:}, 1 thread" "$dir/out" && grep -q '^step    3/3 | loss 5' "$dir/out"
    result $? "${pair%:*} chooses ${pair#*:} and trains"
done
emulated Nehalem --cpu-level v3
[ "$status" = 1 ] && says 1 "--cpu-level v3: this processor has v2; use auto, or one that it has"
result $? "a level that the processor lacks is refused"

# both A B ARGUMENTS...: a rank of each, in $dir, where one beside an emulated one leaves a trace: /proc says of that
# another process than itself
both() {
    local a=$1 b=$2
    shift 2
    # shellcheck disable=SC2086  # words are meant to be split
    run tools/mpirun.sh -np 1 -wdir "$dir" $a $SMALL --data-path "$data" --dp 2 --timeout 300 "$@" : \
        -np 1 -wdir "$dir" $b $SMALL --data-path "$data" --dp 2 --timeout 300 "$@"
}
if [ "$highest" != v2 ] && [ "$highest" != v3 ]; then
    both "qemu-x86_64-static -cpu Haswell $(program any)" "$(program any)"
    [ "$status" = 0 ] && grep -q "^device   cpu, level v3 (the highest that all ranks have; a rank has $highest), " "$dir/out" &&
        grep -q '^step    3/3 | loss 5' "$dir/out"
    result $? "a Haswell and this processor agree on v3"
    both "$(program any)" "qemu-x86_64-static -cpu Haswell $(program any)" --cpu-level v4
    [ "$status" = 1 ] && says 1 "--cpu-level v4: this processor has v3; use auto, or one that it has"
    result $? "a level that one of them lacks is refused"
    both "$(program v3)" "$(program v4)"
    [ "$status" = 1 ] && says 1 "with no level in common; use one build on all ranks, made with make MARCH=any"
    result $? "builds for two processors are refused"
    both "$(program v3)" "$(program any)"
    [ "$status" = 0 ] && grep -q "^device   cpu, level v3 (the highest that all ranks have; a rank has $highest), " "$dir/out"
    result $? "a build for v3 and one for any agree"
else
    skip "two processors" "this one has $highest"
fi
done_testing
