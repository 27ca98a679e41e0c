#!/bin/sh
# --help, --dry-run and --explain need no mpirun, and the numbers of --dry-run equal those of a run. The progress bar.
. tests/lib.sh
needs script

token_file "$data" 20240520 1 4096 4096
mixed="--tp 2 --pp 2 --zero 3 --global-batch-size 4"

look() { # look ARGUMENTS...
    # shellcheck disable=SC2086  # words are meant to be split
    run env -i "$TRAIN" $SMALL "$@"
}
quiet() {
    [ "$status" -eq 0 ] && [ ! -s "$dir/err" ]
}

look --help
missing=
for option in num-layers hidden-size num-attention-heads ffn-hidden-size seq-length vocab-size \
    micro-batch-size global-batch-size train-iters epochs lr min-lr lr-warmup-iters lr-decay-style \
    weight-decay adam-beta1 adam-beta2 adam-eps clip-grad seed data-path val-data-path log-interval \
    eval-interval eval-iters dp tp pp zero schedule gather-buffers reduce-buffers device model \
    tensor-model-parallel-size pipeline-model-parallel-size log dry-run ranks explain audit help \
    timeout ranks-per-node pp-split serial one-queue peak-tflops profile profile-json; do
    grep -q -e "--$option\b" "$dir/out" || missing="$missing --$option"
done
quiet && [ -z "$missing" ]
result $? "--help shows every option$missing"

# shellcheck disable=SC2086
look --dry-run --ranks 4 $mixed
quiet && prints 1 "traffic  MiB/rank per step" && prints 1 "bubble" && cp "$dir/out" "$dir/dry"
result $? "--dry-run prints bytes, bubble and traffic"

# shellcheck disable=SC2086
look --explain --ranks 4 $mixed
quiet && prints 1 "stage 0: embedding" && prints 1 "stage 1: " && prints 1 "bubble by formula"
result $? "--explain prints the program of every stage and the diagram"

# shellcheck disable=SC2086
look --explain layers --ranks 4 $mixed
quiet && prints 1 "layers of gpt2" && prints 1 "block, 2 times" && prints 1 "column attn.c_attn       a          qkv (16, 48) " &&
    prints 1 "weight 3 x (16, 32), bias 3 x (16)" && cp "$dir/out" "$dir/layers" && look --explain=layers --ranks 4 $mixed &&
    cmp -s "$dir/out" "$dir/layers"
result $? "--explain layers prints the layer lists of a tp rank"

look --explain=picture
[ "$status" -eq 1 ] && says 1 "--explain: unexpected value \"picture\"; expected layers or no value"
result $? "--explain rejects any other argument"

memory() { # from the table's heading to its last row
    sed -n '/^memory/,/^ *total/p' "$1"
}
# shellcheck disable=SC2086
job 4 --data-path "$data" $mixed --train-iters 0
[ "$status" -eq 0 ] && messages 0 && [ "$(memory "$dir/dry" | wc -l)" -gt 5 ] &&
    [ "$(memory "$dir/dry")" = "$(memory "$dir/out")" ]
result $? "--dry-run and the banner of the run show the same memory table"

# --memory: a verdict, and each change that it names makes the layout fit.
# shellcheck disable=SC2046,SC2086
fits() {
    run "$TRAIN" --dry-run --model gpt2 --global-batch-size 32 --dp 4 --micro-batch-size 4 "$@" && prints 1 "verdict  fits: "
}
changes() {
    fits --memory 1T || return 1
    # printed to 0.001 MiB, so known to some 500 bytes
    bytes=$(awk '/^heaviest/ { printf "%.0f", $6 * 1048576 }' "$dir/out")
    fits --memory $((bytes + 1024)) && ! fits --memory $((bytes - 1024)) && [ "$status" -eq 1 ] && fits --memory 6.5G || return 1
    ! fits --memory 3G && messages 1 && says 1 "more than the 3072.000 MiB that a rank has; changes that fit, cheapest first:" || return 1
    sed -n 's/^  - \(--.*\) saves .*/\1/p' "$dir/err" | sed 's/, on .*//' >"$dir/changes"
    [ "$(wc -l <"$dir/changes")" -eq 3 ] || return 1
    while read -r change; do fits --memory 3G $change || return 1; done <"$dir/changes"
    # Of a change the whole counts: with 1 KiB less than it needs it is not named.
    change=$(head -n 1 "$dir/changes")
    fits --memory 1T $change || return 1
    bytes=$(awk '/^heaviest/ { printf "%.0f", $6 * 1048576 }' "$dir/out")
    ! fits --memory $((bytes + 1024)) && grep -q -F -e "  - $change" "$dir/err" &&
        ! fits --memory $((bytes - 1024)) && ! grep -q -F -e "  - $change" "$dir/err"
}
check "--memory: what fits is said to fit, and what does not has three changes, with each of which it does" changes
job 2 --data-path "$data" --dp 2 --train-iters 1 --memory 1M
[ "$status" -eq 1 ] && messages 1 && says 1 "--memory: the heaviest rank needs " && prints 0 "step "
result $? "a run that needs more is refused before its first step"
for size in 1X 0 -1G 80GB 1e40 ""; do
    look --dry-run --memory "$size"
    [ "$status" -eq 1 ] && messages 1 && says 1 "--memory: \"$size\" is not a memory size such as 512M or 80G (K, M, G and T: powers of 1024)"
    result $? "--memory \"$size\" is refused"
done

# Attention has scratch memory for each thread.
long="--seq-length 256 --hidden-size 256 --train-iters 0"
# shellcheck disable=SC2086
look --dry-run $long --threads 3
cp "$dir/out" "$dir/dry"
# shellcheck disable=SC2086
job 0 --data-path "$data" $long --threads 3
[ "$status" -eq 0 ] && [ "$(memory "$dir/dry" | wc -l)" -gt 5 ] && [ "$(memory "$dir/dry")" = "$(memory "$dir/out")" ]
result $? "also with several threads a rank"

# shellcheck disable=SC2086
job 4 --data-path "$data" $mixed --profile-json "$dir/profile.json"
[ "$status" -eq 0 ] && messages 0 && prints 1 "profile  steps 3-3" &&
    [ "$(grep -c '^rank 3 \[pp1 dp0 tp1\]' "$dir/out")" -eq 1 ] && prints 1 "tp all-reduce  " && prints 1 "tokens/s; " && [ "$(wc -l <"$dir/profile.json")" -eq 1 ]
result $? "--profile-json writes the time profile of the third step for every rank"

job 0 --data-path "$data" --profile-json "$data"
[ "$status" -eq 1 ] && messages 1 && says 1 ": the same file as --data-path $data, which is read"
result $? "a profile never overwrites the data"

precious "$log"
job 0 --data-path "$data" --log "$log" --profile-json "$data"
[ "$status" -eq 1 ] && messages 1 && says 1 ": the same file as --data-path $data, which is read" && untouched "$log"
result $? "in that case no log is created"

job 0 --data-path "$data" --log "$log" --profile-json "$dir/./log"
[ "$status" -eq 1 ] && messages 1 && says 1 ": the same file as --profile-json $dir/./log, which is written as well" && untouched "$log"
result $? "a log and a profile in one file are refused before the file is created"

for what in --help --dry-run --explain; do
    run env -i /bin/sh -c '"$0" "$@" >/dev/full' "$TRAIN" $SMALL $what
    disk_full
    result $? "$what to a full disk reports the error and exits with status 1"
done

look --dry-run --ranks 4 --tp 3
[ "$status" -eq 1 ] && messages 1 && says 1 "--tp 3: must divide --num-attention-heads 4 and" &&
    says 1 "valid layouts for 4 ranks: --dp 1 --tp 4"
result $? "--dry-run refuses the configurations that a run refuses"

look --dry-run --dp 70000 --tp 70000 --pp 2
[ "$status" -eq 1 ] && messages 1 && says 1 "dp 70000 --tp 70000 --pp 2: too many ranks: 9800000000 (at most 2147483647)"
result $? "--dry-run refuses a number of ranks beyond the limit"

# At the first validation no step's time is known. (The bar: tests/train/terminal.t.)
# shellcheck disable=SC2086
run env LC_ALL=C script -qec "$(echo "$TRAIN" $SMALL) --data-path $data --val-data-path $data --eval-iters 1" /dev/null </dev/null
tr '\r' '\n' <"$dir/out" | sed 's/.\[K$//' | grep '^step [0-9]/3 \[[#.]*\] ' >"$dir/bars"
[ "$status" -eq 0 ] && [ "$(grep -c '^step 0/3 .*\] *0%$' "$dir/bars")" -eq 1 ] &&
    grep -q '^step 2/3 .*\] *66%  [1-9][0-9.]* [mu]*s left' "$dir/bars"
result $? "the progress bar says what is left as soon as a step's time is known"

printf '\377\377\377\177' | dd of="$data" bs=1 seek=12 conv=notrunc status=none
look --dry-run --data-path "$data" --vocab-size 0 --seq-length 1048576 --micro-batch-size 1048576
[ "$status" -eq 1 ] && messages 1 && says 1 "more than any machine can hold; reduce the model or the batch"
result $? "the size checks include the vocabulary of the token file"

# nodes COUNT TEXT: of groups that span several, in a plan and in the banner of a run, where nodes are simulated
nodes() {
    prints 1 "$2" && prints "$1" "warning: a tp group spans 2 nodes, so that each layer waits for the network"
}
run_of_four() {
    job 4 --data-path "$dir/copy.bin" "$@"
}
plan() {
    look --dry-run "$@"
}
token_file "$dir/copy.bin" 20240520 1 4096 4096
for how in plan run_of_four; do
    $how --tp 2 --dp 2 --ranks-per-node 2
    nodes 0 "nodes per group: tp 1, dp 2" && prints 1 "layout   4 ranks = pp 1 x dp 2 x tp 2 on 2 nodes; "
    result $? "$how: the nodes of each group"
    $how --tp 4 --ranks-per-node 2
    nodes 1 "nodes per group: tp 2"
    result $? "$how: a tp group over two nodes"
    $how --tp 2 --pp 2 --ranks-per-node 3
    nodes 1 "nodes per group: tp 2, pp 2"
    result $? "$how: one of two tp groups over two nodes"
done
# Its programs would be some hundred MB; the address space is limited, since no test asserts time.
# shellcheck disable=SC2016,SC2086
run sh -c 'ulimit -v 400000 && exec "$@"' sh "$TRAIN" $SMALL --dry-run --pp 2 --zero 1 --global-batch-size 1000000
quiet && prints 1 "1000000 micro-batches" && prints 1 "activations out     1953.125"
result $? "the plan of a step of a million micro-batches is small"

look --dry-run --tp 2 --dp 2
prints 0 "nodes" && prints 0 "on 1 node"
result $? "a plan without --ranks-per-node says nothing about nodes"

# MPI is not initialized; it could not be here.
run env -i OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=/nonexistent "$TRAIN" --dry-run --tp two
[ "$status" -eq 1 ] && messages 1 && says 1 "--tp: invalid value \"two\"; expected an integer" &&
    [ "$(wc -l <"$dir/err")" -eq 1 ]
result $? "--dry-run reports command-line errors without MPI"

done_testing
