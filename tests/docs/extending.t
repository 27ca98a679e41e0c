#!/bin/bash
# TEST ranks=2 longer=train timeout=1800
# shellcheck disable=SC2317  # check calls the functions
#
# docs/extending.md: each of its changes applies to the current tree, compiles without a warning, keeps the layers, and
# does what the page says: its commands print the output on the page. All changes are applied to one copy of the tree,
# compiled without optimisation, and for the smallest processor: headers of vector instructions take half of the time.
# With TRINE_FULL each is also built alone, for this processor, and the layer runs on the emulated GPU.
set -eu
. tests/lib.sh
needs git make

unset MAKEFLAGS MFLAGS
export LC_ALL=C
names=$(tests/docs/extending.sh extract "$dir")
fresh=$dir/fresh
mkdir -p "$fresh/tests"
cp -r Makefile include src examples tools emu "$fresh/"
cp -r tests/*.[ch] tests/ops "$fresh/tests/" # of the tests, what the changes build
git init -q "$fresh" # otherwise git apply uses a repository around it

# copy TREE: with 4096 tokens, the digits of 1, 2, 3, ... Its files are links: git and sed replace what they change.
copy() {
    cp -rl "$fresh" "$1"
    {
        le32 20240520 1 4096 256
        head -c 1008 /dev/zero
        seq 1500 | tr -d '\n' | head -c 4096 | sed 's/./&\x00/g'
    } >"$1/text_train.bin"
}

# apply TREE NAME
apply() {
    git -C "$1" apply "$dir/$2.diff"
}

march=${MARCH:-native}
[ "$(uname -m)" != x86_64 ] || march=x86-64

# make_in TREE TARGET...
make_in() {
    local tree=$1
    shift
    "${MAKE:-make}" -C "$tree" --no-print-directory -s -j"$(nproc)" BUILD=build CUDA=0 CFLAGS="-O0 -march=$march" \
        WERROR=-Werror "$@"
}

# build TREE TARGET...: the objects of the emulation only if they are targets
build() {
    make_in "$@" -o build/emu/libtrine_cuda.so -o build/emu/libnccl_emu.so
}

# shown TREE NAME: the page's commands print the page's text
shown() {
    cat "$dir/common.sh" "$dir/$2.sh" >"$dir/commands"
    (cd "$1" && BUILD=build timeout -k 5 300 sh -e "$dir/commands") >"$dir/$2.said" 2>"$dir/$2.err" </dev/null || {
        cat "$dir/$2.said" "$dir/$2.err"
        return 1
    }
    if [ -n "${KEEP:-}" ]; then mkdir -p "$KEEP" && cp "$dir/$2.said" "$KEEP/"; fi
    diff "$dir/$2.text" "$dir/$2.said"
}

# small TREE RANKS PROGRAM ARGUMENTS...
small() {
    local tree=$1 ranks=$2 program=$3
    shift 3
    # shellcheck disable=SC2086  # words are meant to be split
    (cd "$tree" && tools/mpirun.sh -np "$ranks" "build/$program" $SMALL --data-path text_train.bin --global-batch-size 8 "$@")
}

# equal TREE A B: two logs have the same numbers, of three steps
equal() {
    numbers "$1/$2" >"$dir/a" && numbers "$1/$3" >"$dir/b" && [ "$(wc -l <"$dir/a")" -eq 9 ] && diff "$dir/a" "$dir/b"
}

# ---- Requirements beyond what the page shows

# In one queue, with ZeRO-3 and a split backward pass; and with fewer micro-batches than slots.
schedule_more() {
    local options
    for options in "--zero 3 --split-backward --one-queue" "--global-batch-size 2 --one-queue"; do
        options="--num-layers 4 --pp 4 $options"
        # shellcheck disable=SC2086  # words are meant to be split
        small "$1" 4 train_gpt $options --schedule 1f1b --log one &&
            small "$1" 4 train_gpt $options --schedule eager --log two && equal "$1" one two || return 1
        rm "$1/one" "$1/two"
    done
}

# It changes no number, however the gradients are computed.
instruction_more() {
    local options="--dp 2 --pp 2 --zero 3 --split-backward --one-queue"
    # shellcheck disable=SC2086  # words are meant to be split
    small "$1" 4 train_gpt $options --log one && small "$1" 4 train_gpt $options --audit --log two && equal "$1" one two &&
        small "$1" 2 train_gpt --tp 2 --sequence-parallel --log three &&
        small "$1" 2 train_gpt --tp 2 --sequence-parallel --audit --log four && equal "$1" three four
}

# Where later stages run further ahead than earlier ones, all wait for the first, and the checker says where.
schedule_refused() {
    (cd "$1" && sed -i 's/stages - stage + 1/stages + stage/' src/pp/eager.c) && build "$1" build/train_gpt &&
        (cd "$1" && ! build/train_gpt --vocab-size 256 --num-layers 4 --pp 4 --global-batch-size 8 --schedule eager \
            --explain) >"$dir/refused" 2>&1 &&
        cat "$dir/refused" && grep -q 'deadlock: no stage can continue: stage 0, ' "$dir/refused"
}

# Inserted after REDUCE instead, it violates its rule.
instruction_refused() {
    (cd "$1" && sed -i 's/i->kind != BACKWARD && i->kind != BACKWARD_WEIGHT/i->kind != REDUCE/' src/dp/finite.c) &&
        build "$1" build/train_gpt &&
        (cd "$1" && ! build/train_gpt --vocab-size 256 --audit --explain) >"$dir/refused" 2>&1 &&
        cat "$dir/refused" && grep -q 'instruction [0-9]* (FINITE u[0-9]* m[0-9]*): unit [0-9]* is reduced' "$dir/refused"
}

# On cpu as on ref, and in 16 bits; recomputation gives the same bits.
layer_more() {
    (cd "$1" && TRINE_PROBLEM=relu2 TRINE_CUDA_LIBRARY=/nowhere build/tests/ops/gradients) &&
        small "$1" 1 own_model --device ref --log ref && small "$1" 1 own_model --log cpu && near "$1" &&
        small "$1" 2 own_model --tp 2 --recompute-granularity selective --log one &&
        small "$1" 2 own_model --tp 2 --log two && equal "$1" one two && small "$1" 1 own_model --device ref --bf16
}

# near TREE [LOG]: LOG has the losses of ref, up to rounding
near() {
    paste -d: <(numbers "$1/ref") <(numbers "$1/${2:-cpu}") |
        awk -F: '{ d = ($2 - $4) / $4; if (d > 2e-6 || d < -2e-6) bad = 1 } END { exit bad || NR != 9 }'
}

# Compiles the kernels and their table; nothing runs them here.
layer_for_gpus() {
    build "$1" build/emu/device/cuda/relu2.o build/emu/device/cuda/backend.o
}

layer_on_gpus() {
    make_in "$1" build/emu/libtrine_cuda.so &&
        (cd "$1" && TRINE_PROBLEM=relu2 TRINE_CUDA_LIBRARY=$1/build/emu/libtrine_cuda.so build/tests/ops/gradients) &&
        small "$1" 1 own_model --device cuda --cuda-library "$1/build/emu/libtrine_cuda.so" --log cuda && near "$1" cuda
}

family_more() {
    small "$1" 4 train_gpt --model gptj --dp 2 --tp 2 --zero 2 --log ref && small "$1" 1 train_gpt --model gptj --log cpu &&
        near "$1"
}

# 16-bit numbers, which the chain leaves to mpi; no all-reduce of gradients; vectors of 544 KiB, which are two segments.
transport_more() {
    local options
    for options in "--tp 2 --sequence-parallel --device ref --bf16" "--dp 2 --zero 3" \
        "--tp 2 --num-layers 1 --hidden-size 128 --micro-batch-size 68 --global-batch-size 68"; do
        # shellcheck disable=SC2086  # words are meant to be split
        small "$1" 2 train_gpt $options --transport mpi --log one &&
            small "$1" 2 train_gpt $options --transport chain --log two && equal "$1" one two || return 1
        rm "$1/one" "$1/two"
    done
}

targets() {
    echo build/train_gpt
    case $1 in *layer*) echo build/own_model build/tests/ops/gradients ;; esac
}

# ---- All in one tree

all=$dir/all
copy "$all"
check "the page has five changes" test "$(echo "$names" | wc -w)" -eq 5
for name in $names; do
    check "$name: applies" git -C "$fresh" apply --check "$dir/$name.diff"
    check "$name: applies beside the others" apply "$all" "$name"
done
# shellcheck disable=SC2046,SC2086  # words are meant to be split
check "all compile without a warning" build "$all" $(targets "$names")
check "layers" tools/layers.sh "$all"
for name in $names; do
    check "$name: does what the page says" shown "$all" "$name"
    check "$name: meets its other requirements" "${name}_more" "$all"
done
check "layer: compiles for GPUs" layer_for_gpus "$all"
check "schedule: the checker refuses stages that wait for each other" schedule_refused "$all"
check "instruction: the checker refuses it elsewhere" instruction_refused "$all"

# ---- Each change alone

march=${MARCH:-native}
for name in ${TRINE_FULL:+$names}; do
    alone=$dir/$name
    copy "$alone"
    check "$name alone: applies" apply "$alone" "$name"
    # shellcheck disable=SC2046  # words are meant to be split
    check "$name alone: compiles" build "$alone" $(targets "$name")
    check "$name alone: layers" tools/layers.sh "$alone"
    check "$name alone: does what the page says" shown "$alone" "$name"
    if [ "$name" = layer ]; then check "layer: on the emulated GPU" layer_on_gpus "$alone"; fi
    rm -rf "$alone"
done
done_testing
