#!/bin/sh
# Failures on GPUs before the first step and during a step: no shared object, no GPU, an old driver, too little
# memory, a GPU that fails. The job prints one message, which names host, rank and GPU; every rank exits with
# a failure. Also the banner's lines. The GPU is emulated (emu).
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
object=$BUILD/emu/libtrine_cuda.so
gpu="--device cuda --cuda-library $object --data-path $data"
host=$(hostname)

# on SETTING COMMAND...: on an emulated machine with this setting; plain: without one
on() {
    export "TRINE_EMU_${1?}"
    shift
    "$@"
}
plain() {
    unset TRINE_EMU_GPUS TRINE_EMU_DRIVER TRINE_EMU_MEMORY TRINE_EMU_FAIL TRINE_EMU_PINNABLE \
        TRINE_EMU_FIRST_USE TRINE_EMU_BLAS_MULTIPLE
}

# refused RANKS TEXT ARGUMENTS...: one message, with TEXT
refused() {
    ranks=$1 text=$2
    shift 2
    job "$ranks" "$@"
    messages 1 && says 1 "$text" && ended
}

# ---- The object

# A copy of the program with no object beside it. (The machine's loader might find another one.)
TRAIN=$dir/bin/train_gpt
mkdir -p "$dir/bin" "$dir/lib"
cp "$BUILD/train_gpt" "$TRAIN"
refused 2 "libtrine_cuda.so was not found beside the program" --device cuda --data-path "$data" --dp 2 &&
    says 1 "or use --device cpu" && says 1 "$host rank 0 [pp0 dp0 tp0]: " && says 0 "    at "
result $? "missing object: one line says what to do"

cp "$object" "$dir/lib/"
job 0 --device cuda --data-path "$data" --train-iters 1
[ $status -eq 0 ] && prints 1 "step    1/1 | loss"
result $? "the object in ../lib is found"

echo "no object" >"$dir/bin/libtrine_cuda.so"
refused 0 "bin/libtrine_cuda.so: " --device cuda --data-path "$data"
result $? "a broken object beside the program is an error"

TRAIN=$BUILD/train_gpt
refused 0 "--cuda-library $dir/none.so: No such file" --device cuda --data-path "$data" \
    --cuda-library "$dir/none.so"
result $? "--cuda-library: missing file"

refused 0 "is not Trine's" --device cuda --data-path "$data" \
    --cuda-library "$(ldd "$BUILD/train_gpt" | sed -n 's/.*libdnnl[^ ]* => \([^ ]*\).*/\1/p')"
result $? "--cuda-library: another library"

refused 0 "--cuda-library requires --device cuda" --device cpu --cuda-library "$object" \
    --data-path "$data"
result $? "--cuda-library on a device that uses none"

# ---- The GPUs

# shellcheck disable=SC2086  # words are meant to be split
on GPUS=0 refused 2 "no GPU can be used: " $gpu --dp 2 && says 1 "$host rank 0 [pp0 dp0 tp0]: "
result $? "no GPU"
plain

# shellcheck disable=SC2086
on DRIVER=11000 refused 0 "driver version is insufficient" $gpu
result $? "driver too old"
plain

# shellcheck disable=SC2086
on GPUS=2 job 4 $gpu --tp 2 --dp 2 --train-iters 1
[ $status -eq 0 ] && prints 1 "gpu      Emulated GPU, 4.0 GiB" && prints 1 "; ranks 0-3" &&
    prints 1 "fewer GPUs than ranks: 4 ranks share 2 GPUs" && prints 0 "warning" &&
    prints 1 "transport staged shm: dp node; nccl: tp" && prints 1 "links    dp host memory, tp NVLink" &&
    prints 1 "used on rank 0's GPU before the plan: 96.0 MiB by workspaces, 8.0 by NCCL, 0.0 by contexts"
result $? "the banner shows which ranks share a GPU"
plain

# Emulated GPUs are linked by NVLink in pairs; groups of four share a switch.
# shellcheck disable=SC2086
job 4 $gpu --tp 2 --dp 2 --train-iters 1
[ $status -eq 0 ] && prints 1 "transport nccl: dp tp; shm: node" &&
    prints 1 "links    dp PCIe, tp NVLink" &&
    prints 1 "used on rank 0's GPU before the plan: 48.0 MiB by workspaces, 16.0 by NCCL, 0.0 by contexts"
result $? "the banner shows the links within each group, and memory in use before the plan"
# shellcheck disable=SC2086
job 5 $gpu --dp 5 --global-batch-size 5 --train-iters 1
[ $status -eq 0 ] && prints 1 "links    dp host memory"
result $? "a group is as fast as its slowest link"

# With one rank per node, a tp group spans two nodes.
# shellcheck disable=SC2086
job 2 $gpu --tp 2 --train-iters 1 --ranks-per-node 1
[ $status -eq 0 ] && prints 1 "warning: 1 of 1 tp groups span nodes"
result $? "the banner warns about a tp group that spans nodes"

# ---- Memory

# The device's own memory, the reserve of 64 MiB, and 9 MiB.
large="--hidden-size 64 --seq-length 64 --micro-batch-size 8 --global-batch-size 32 --schedule gpipe --transport shm"
# shellcheck disable=SC2086
on MEMORY=$((121 << 20)) refused 2 "out of memory: this rank needs" $gpu $large --dp 2 &&
    says 1 "$host rank 0 [pp0 dp0 tp0] GPU 0 (Emulated GPU): " && says 1 "activations" &&
    says 1 "and a reserve of 64.0 MiB; of the GPU's 121.0 MiB" && says 3 " MiB per rank and needs "
result $? "too little memory: the message has rank, size and three remedies"
sed -n 's/^  - \(.*\) saves.*/\1/p' "$dir/err" >"$dir/ways"
while read -r way; do
    case $way in *ranks) continue ;; esac
    # shellcheck disable=SC2086
    job 2 $gpu $large --dp 2 $way --train-iters 0
    [ $status -eq 0 ] && prints 1 "total on the GPU"
    result $? "the remedy in the message fits: $way"
done <"$dir/ways"
[ -s "$dir/ways" ]
result $? "the message has remedies to try"
plain

# The device's own memory, and half of an NCCL group's buffers.
# shellcheck disable=SC2086
on MEMORY=$((52 << 20)) refused 2 "out of memory: this rank needs" $gpu --dp 2 &&
    says 1 " MiB of GPU memory in addition to NCCL's groups (" && says 3 " MiB per rank and needs " && says 0 "maths"
result $? "too little memory for NCCL groups: the same"
plain

# Each kernel and each matmul takes a MiB at its first use. The rest is for the plan.
export TRINE_EMU_FIRST_USE=$((1 << 20))
for memory in 60 80 100; do
    # shellcheck disable=SC2086
    on MEMORY=$((memory << 20)) refused 2 "out of memory: this rank needs" $gpu --dp 2 &&
        says 1 "and a reserve of 64.0" && says 0 "maths" && prints 0 "step "
    result $? "libraries need more than the $memory MiB of the GPU: refused before the first step"
done
# shellcheck disable=SC2086
on MEMORY=$((200 << 20)) job 2 $gpu --dp 2
[ $status -eq 0 ] && prints 1 "step    3/3 | loss"
result $? "libraries and the plan fit together"
plain

# All sizes of this model except the vocabulary, whose rows are padded, are multiples of 8 elements.
# shellcheck disable=SC2086
on BLAS_MULTIPLE=8 job 2 $gpu --tp 2 --vocab-size 257
[ $status -eq 0 ] && prints 1 "step    3/3 | loss" && prints 1 "vocabulary 257,"
result $? "matmuls with an odd vocabulary have aligned sizes"
plain

# shellcheck disable=SC2086
on MEMORY=$((30 << 20)) refused 0 "GPU 0 has no free memory for the device's own buffers" $gpu
result $? "too little memory for the device's own buffers"
plain

# Unpinned host memory gives the same numbers. (Steps are compared without times.)
steps() { sed -n 's/^\(step.*grad norm [^ ]*\).*/\1/p' "$dir/out"; }
# shellcheck disable=SC2086
on GPUS=1 job 2 $gpu --dp 2 --log-interval 1
steps >"$dir/pinned"
# shellcheck disable=SC2086
on PINNABLE=4096 job 2 $gpu --dp 2 --log-interval 1
[ $status -eq 0 ] && steps | cmp -s - "$dir/pinned" && [ -s "$dir/pinned" ] && messages 0 &&
    prints 1 "warning: on 2 of 2 ranks up to " && prints 1 "could not be pinned" &&
    prints 1 "first on rank 0: GPU 0: " && prints 1 "the driver stages copies of it, which is slower"
result $? "host memory that cannot be pinned: one warning and the same steps"
plain

# The plan equals the allocation, except for the transport, for which a dry run knows only the maximum.
# shellcheck disable=SC2086
on GPUS=1 job 2 $gpu --dp 2 --zero 3 --train-iters 0
sed -n '/^memory/,/staging/p' "$dir/out" >"$dir/taken"
# shellcheck disable=SC2086
on GPUS=0 job 0 $gpu --dp 2 --zero 3 --dry-run
[ $status -eq 0 ] && sed -n '/^memory/,/staging/p' "$dir/out" | cmp -s - "$dir/taken" &&
    grep -q "total on the GPU" "$dir/taken" && grep -q "host: staging" "$dir/taken"
result $? "--dry-run without a GPU prints the memory used on one"
job 0 --device cuda --pp 2 --global-batch-size 4 --explain
[ $status -eq 0 ] && prints 2 "stage 1"
result $? "--explain needs neither GPU nor object"
plain

# ---- A GPU that fails

for after in 60 400 900; do
    # shellcheck disable=SC2086
    on FAIL=$after job 4 $gpu --dp 2 --tp 2 --train-iters 50 --global-batch-size 8
    messages 1 && grep -q "^trine: $host rank [0-3] \[.*\] GPU [0-3] (Emulated GPU): maths" "$dir/err" &&
        ended
    result $? "a GPU fails after $after operations: the job aborts and names the GPU's rank"
    plain
done

done_testing
