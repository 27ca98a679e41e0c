#!/bin/bash
# Checks Trine on a machine with a GPU in ten minutes: what the machine has, whether Trine builds, computes correct
# results, and how fast. Each step has a time limit. A step that fails or hangs is a line of the summary, and the
# next step starts. docs/gpu.md describes the steps.
#
# Usage: tools/gpu_check.sh [--emulated] [--list] [--only PATTERN] [SECONDS]
#   SECONDS      time limit for all steps (570); steps that start too late are skipped
#   --emulated   use the emulated GPU (emu) with small sizes, to test this script; its timings mean nothing
#   --only P     run only the steps whose name matches the glob P (required steps, build and data, are not added)
#   --list       print the steps and their limits
#
# OUT (BUILD/gpu_check) gets summary.txt, the figures as JSON, and logs.tar.gz with the output of all steps.
# BUILD: build. Exit status 0: every step that ran passed; 1: a step failed; 2: usage error.
# shellcheck disable=SC2317,SC2086  # steps are called by name; options are several arguments
set -u
self=$(realpath "$0")
cd "$(dirname "$self")/.." || exit

build=${BUILD:-build}
out=${OUT:-$build/gpu_check}
limit=570 emulated='' only='*' list=''
usage() {
    sed -n '/^# Usage:/,/^# OUT/{s/^# \{0,1\}//;p;}' "$self" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
        --emulated) emulated=yes ;;
        --list) list=yes ;;
        --only) only=${2:?--only needs a pattern} && shift ;;
        *[!0-9]* | '') usage ;;
        *) limit=$1 ;;
    esac
    shift
done

# ---- Running steps

since=$SECONDS passed=0 failed=0 skipped=0

say() {
    echo "$*" | tee -a "$out/summary.txt"
}

skip() {
    say "SKIP    0s $1: $2"
    skipped=$((skipped + 1))
}

# The lines of a log that are likely to show the cause of a failure.
excerpt() {
    {
        grep -E 'ERROR|[Ee]rror|not ok|trine:|=====|emu:' "$1" | head -n 4
        tail -n 3 "$1"
    } | cut -c 1-200 | awk '!seen[$0]++ { print "         " $0 }'
}

# run NAME SECONDS COMMAND...: runs one step with its output in the logs. Returns its status.
run() {
    local name=$1 most=$2 left=$((limit - (SECONDS - since))) from=$SECONDS status
    shift 2
    [ "$most" -le "$left" ] || most=$left
    # Open MPI's session folder is the step's own: a daemon of the step before may still be removing what they would share.
    local session=$logs/$name.session
    mkdir -p "$session"
    # timeout makes a process group, so that all processes of a step end with it.
    # shellcheck disable=SC2016
    OMPI_MCA_orte_tmpdir_base=$session timeout -k 5 "$most" bash -c '"$@"' "$name" "$@" >"$logs/$name.log" 2>&1 </dev/null
    status=$?
    rm -rf "$session"
    case $status in
        0) echo "PASS $(printf %4d $((SECONDS - from)))s $name" ;;
        124 | 137) echo "TIME $(printf %4d $((SECONDS - from)))s $name: killed after $most s" ;;
        *) echo "FAIL $(printf %4d $((SECONDS - from)))s $name: status $status" ;;
    esac >"$logs/$name.line"
    [ $status -eq 0 ] || excerpt "$logs/$name.log" >>"$logs/$name.line"
    return $status
}

# wanted NAME SECONDS
wanted() {
    # shellcheck disable=SC2053  # a pattern
    [[ $1 == $only ]] || return 1
    if [ -n "$list" ]; then
        printf '%-22s %4d s\n' "$1" "$2"
        return 1
    fi
    [ $((limit - (SECONDS - since))) -gt 5 ] || { skip "$1" "no time left"; return 1; }
}

tell() { # tell NAME: prints and counts the result of `run`
    tee -a "$out/summary.txt" <"$logs/$1.line"
    case $(head -c 4 "$logs/$1.line") in PASS) passed=$((passed + 1)) ;; *) failed=$((failed + 1)) ;; esac
}

# step NAME SECONDS COMMAND...
step() {
    wanted "$1" "$2" || return 0
    run "$@"
    tell "$1"
}

# concurrent NAME SECONDS COMMAND...: starts a step that runs at the same time as others, until `wait_all`
waiting=()
concurrent() {
    wanted "$1" "$2" || return 0
    run "$@" &
    waiting+=("$1")
}
wait_all() {
    wait
    for name in "${waiting[@]}"; do tell "$name"; done
    waiting=()
}

# needs COMMAND NAME...: skips these steps if the command is missing
needs() {
    local command=$1 name
    shift
    [ -n "$list" ] || command -v "$command" >/dev/null && return 0
    for name in "$@"; do if wanted "$name" 0; then skip "$name" "$command not found"; fi; done
    return 1
}

# ---- The sizes

if [ -n "$emulated" ]; then
    object=$build/emu/libtrine_cuda.so iterations=2
    small="--num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 18" words=64
    tiny="--num-layers 1 --hidden-size 64 --num-attention-heads 2 --seq-length 18"
    model="--num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 16
        --threads 1 --micro-batch-size 1 --micro-batches 3 --reps 1" padded=64 odd=61 large=
    llama=
    micro=1 micros=65 tests="single grouped" type=fp32
    # The benchmarks measure memory with buffers of several times the size of the cache.
    export TRINE_EMU_CACHE=65536
else
    object=$build/libtrine_cuda.so iterations=20
    small="--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 130" words=512
    tiny="--num-layers 1 --hidden-size 128 --num-attention-heads 2 --seq-length 130"
    model="--model gpt2 --micro-batch-size 32 --micro-batches 8 --reps 3" padded=50304 odd=50257
    large="--model gpt2-xl --micro-batch-size 8 --micro-batches 4 --reps 1"
    llama="--model llama3.2-1b --micro-batch-size 4 --micro-batches 4 --reps 1"
    micro=8 micros=65 tests="gpu types attention single dropout grouped exact gradients" type=bf16
fi
small="$small --seed 7 --lr 1e-3 --train-iters $iterations"
cuda="--device cuda --cuda-library $object"
logs=

# ---- Steps of more than one command

facts() {
    nvidia-smi
    nvidia-smi topo -m
    nvcc --version
    mpirun --version
    ${CC:-cc} --version
    nproc
    free -m
    df -h /dev/shm /tmp
    ldconfig -p | grep -E 'libcublasLt|libnccl|libcudart'
    command -v ncu nsys compute-sanitizer cuobjdump
    [ -n "$emulated" ] || nvidia-smi -L | grep -q .
}

# search_disk FILE: the first file of that name outside the compiler's search paths (packages of pip or conda)
search_disk() {
    find / \( -path /proc -o -path /sys -o -path /tmp \) -prune -o -name "$1" -print -quit 2>/dev/null
}

# On machines for PyTorch, NCCL and cuBLAS are Python packages without the file names that a linker looks for.
find_libraries() {
    local at
    mkdir -p "$logs/lib"
    if [ -z "${NCCL_HOME:-}" ] && ! echo '#include <nccl.h>' | ${CC:-cc} -E -x c - >/dev/null 2>&1; then
        at=$(search_disk nccl.h)
        [ -z "$at" ] || echo "export NCCL_HOME=$(realpath "$(dirname "$at")/..")"
    fi
    at=$(search_disk 'libcublasLt.so')
    if [ -z "$at" ]; then
        at=$(search_disk 'libcublasLt.so.*')
        [ -z "$at" ] || ln -sf "$at" "$logs/lib/libcublasLt.so"
    fi
    [ -z "$at" ] || echo "export LIBRARY_PATH=$logs/lib:$(dirname "$at"):\${LIBRARY_PATH:-}" \
        "LD_LIBRARY_PATH=$(dirname "$at"):\${LD_LIBRARY_PATH:-}"
}

# Builds for the GPU's own architecture only, without the emulation.
build_all() {
    local sm make
    if [ -n "$emulated" ]; then
        make -j"$(nproc)" BUILD="$build" "$object" "$build/train_gpt" "$build/trine-eval" "$build/trine-generate" $programs
        return
    fi
    sm=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    make=(make -j"$(nproc)" -o "$build/emu/libtrine_cuda.so" -o "$build/emu/libnccl_emu.so" BUILD="$build" CUDA=1
        CUDA_ARCH="-gencode=arch=compute_$sm,code=sm_$sm")
    "${make[@]}" all && "${make[@]}" $programs
}
programs="$build/bench/matmul $build/bench/kernels $build/bench/step $build/tests/train/cuda"
for test in $tests; do programs="$programs $build/tests/ops/$test"; done

# token_file FILE VOCABULARY COUNT: tokens with a pattern that a model can learn
token_file() {
    perl -e 'my ($v, $n) = @ARGV; srand 1; binmode STDOUT;
        print pack "V256", 20240520, 1, $n, $v, (0) x 252;
        print pack "v*", map { (7 * ($_ % 13) + int rand 5) % $v } 0 .. $n - 1;' "$2" "$3" >"$1"
}

data() {
    token_file "$logs/small.bin" "$words" 65536
    token_file "$logs/words.bin" "$odd" 262144
}

# losses LOG: the losses, one a line
losses() {
    grep -o 'loss [0-9.]*' "$1"
}

# compare CPU GPU BOUND: compares the losses of two steps' logs, iteration by iteration
compare() {
    paste <(losses "$logs/$1.log") <(losses "$logs/$2.log") |
        awk -v bound="$3" -v steps="$iterations" '
            { d = $2 - $4; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
            END { print n, "steps, largest difference", worst, "limit", bound; exit !(n == steps && worst <= bound) }'
}

train() {
    "$build/train_gpt" --data-path "$logs/small.bin" $small "$@"
}

# family NAME: the options of a family's small model. Two heads share keys and values. With a rate of 1e-3 the loss
# jumps, and losses in bf16 and fp32 differ by 0.1 on any device.
family() {
    echo "--family $1 --num-query-groups 2 --micro-batch-size 2 --lr 3e-4"
}

# Adapters beside a frozen base, and one norm that is trained with them
lora="--lora-rank 8 --lora-targets all-linear --train model.norm.weight"

# The text that both devices continue with the most likely tokens is the same, in fp32.
generate() {
    local device
    for device in cpu cuda; do
        "$build/trine-generate" "$logs/llama" --ids "1 2 3 4" --tokens 12 --temperature 0 --device $device \
            $([ $device = cpu ] || echo $cuda) | tee "$logs/generated_$device.ids" || return
    done
    [ -s "$logs/generated_cpu.ids" ] && cmp "$logs/generated_cpu.ids" "$logs/generated_cuda.ids"
}

# evaluate: the two devices' loss of some tokens
evaluate() {
    local device
    for device in cpu cuda; do
        "$build/trine-eval" "$logs/llama" --data "$logs/small.bin" --max-tokens 2000 --json --device $device \
            $([ $device = cpu ] || echo $cuda) | tee "$logs/evaluated_$device.json" || return
    done
    perl -MJSON::PP -e '
        my @loss = map { local $/; open my $f, "<", $_ or die; decode_json(<$f>)->{nats_per_token} } @ARGV;
        printf "losses %s, limit 1e-4\n", join " ", @loss;
        exit !($loss[0] > 0 && abs($loss[0] - $loss[1]) <= 1e-4 * $loss[0]);' "$logs"/evaluated_{cpu,cuda}.json
}

# exact: with --exact the losses and norms of other layouts, through host memory and by NCCL, have one rank's bits.
exact() {
    local same="--bf16 --exact --exact-dp 2 --exact-tp 2 --global-batch-size 4" status=0 name of
    train $cuda $same --log "$logs/exact_1.json" || return
    ranks 2 $same --dp 2 --zero 3 --log "$logs/exact_dp2.json" || status=1
    ranks 2 $same --tp 2 --sequence-parallel --log "$logs/exact_tp2.json" || status=1
    ranks 2 $same --pp 2 --schedule zb --log "$logs/exact_pp2.json" || status=1
    ranks 4 $same --dp 2 --tp 2 --zero 2 --log "$logs/exact_dp2_tp2.json" || status=1
    nccl $same --dp 2 --zero 1 --log "$logs/exact_nccl_dp2.json" || status=1
    nccl $same --tp 2 --log "$logs/exact_nccl_tp2.json" || status=1
    train $cuda $same $(family llama) $lora --log "$logs/exact_lora_1.json" || return
    ranks 2 $same $(family llama) $lora --dp 2 --zero 3 --log "$logs/exact_lora_dp2.json" || status=1
    ranks 2 $same $(family llama) $lora --tp 2 --sequence-parallel --log "$logs/exact_lora_tp2.json" || status=1
    for name in 1 dp2 tp2 pp2 dp2_tp2 nccl_dp2 nccl_tp2 lora_1 lora_dp2 lora_tp2; do
        grep -o '"\(step\|loss\|grad_norm\)":[^,}]*' "$logs/exact_$name.json" >"$logs/exact_$name.numbers"
        case $name in lora_*) of=exact_lora_1 ;; *) of=exact_1 ;; esac
        cmp "$logs/$of.numbers" "$logs/exact_$name.numbers" && [ -s "$logs/exact_$name.numbers" ] || status=1
        echo "exact_$name: $(md5sum <"$logs/exact_$name.numbers"), $(wc -l <"$logs/exact_$name.numbers") numbers"
    done
    return $status
}

ranks() { # ranks COUNT ARGUMENTS...
    local count=$1
    shift
    TRINE_EMU_GPUS=1 tools/mpirun.sh -np "$count" "$build/train_gpt" --data-path "$logs/small.bin" $small $cuda "$@"
}

# NCCL refuses two ranks on one GPU of one host: so each gets a host id of its own, and they communicate by sockets.
nccl() {
    # shellcheck disable=SC2016
    NCCL_SOCKET_IFNAME=lo NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_DEBUG=WARN TRINE_EMU_GPUS=1 \
        tools/mpirun.sh -np 2 bash -c 'NCCL_HOSTID=host$$ TRINE_EMU_HOSTID=host$$ exec "$@"' nccl \
        "$build/train_gpt" --data-path "$logs/small.bin" $small $cuda --transport nccl --timeout 60 "$@"
}

# nccl_bytes: of each run by NCCL, MiB that were in use on the GPU before the plan, beside those that a dry run states
# for libraries, of two ranks. More than stated fails.
nccl_bytes() {
    local log status=1
    for log in "$logs"/nccl_*.log; do
        perl -ne '
            m{before the plan: ([\d.]+) MiB by workspaces, ([\d.]+) by NCCL, ([\d.]+) by} and @used = ($1, $2, $3);
            m{beside: libraries +([\d.]+)} and $stated = 2 * $1;
            END { exit 2 unless @used && $stated; $sum = $used[0] + $used[1] + $used[2];
                  printf "workspaces %.1f, NCCL %.1f, contexts %.1f: %.1f of %.1f MiB\n", @used, $sum, $stated;
                  exit($sum > $stated) }' "$log" >"$logs/bytes" || return
        echo "$(basename "$log" .log): $(cat "$logs/bytes")"
        status=0
    done
    return $status
}

bench() { # bench NAME PROGRAM ARGUMENTS...
    local name=$1 program=$2
    shift 2
    "$build/bench/$program" $cuda --type "$type" --dir "$logs" --json "$out/$name.json" "$@"
}

# Two layers of the model run all of its kernels.
profiled() {
    ncu --clock-control none "$@" "$build/train_gpt" --data-path "$logs/words.bin" --num-layers 2 $cuda --bf16 \
        --vocab-size "$odd" --micro-batch-size "$micro" --train-iters 2
}

sanitized() { # sanitized TOOL ARGUMENTS...
    local tool=$1
    shift
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/train_gpt" --data-path "$logs/small.bin" $tiny $cuda \
        --micro-batch-size 2 --train-iters 1 "$@"
}

# ---- All of them

steps() {
    local name
    step facts 20 facts
    if [ -z "$emulated" ] && [ -z "$list" ]; then eval "$(find_libraries)"; fi
    step build 270 build_all
    step data 20 data

    # Correctness
    step train_fp32 60 train $cuda --micro-batch-size 2
    step train_bf16 60 train $cuda --micro-batch-size 2 --bf16
    step train_fp16 60 train $cuda --micro-batch-size 2 --fp16
    step processor 60 train --micro-batch-size 2
    # fp32: sums have another order. bf16 rounds activations to 8 bits: 2^-9 of a loss of about 5, over all steps.
    step parity_fp32 5 compare processor train_fp32 1e-4
    step parity_bf16 5 compare processor train_bf16 2e-2
    for name in llama qwen3; do
        step "processor_$name" 60 train $(family $name)
        step "train_$name" 60 train $cuda $(family $name) --bf16 --save "$logs/$name"
        step "parity_$name" 5 compare "processor_$name" "train_$name" 2e-2
    done
    step processor_lora 60 train $(family llama) $lora
    step train_lora 60 train $cuda $(family llama) $lora --bf16
    step parity_lora 5 compare processor_lora train_lora 2e-2
    step generate 30 generate
    step evaluate 30 evaluate
    for name in $tests; do concurrent "ops_$name" 200 "$build/tests/ops/$name"; done
    wait_all

    # Speed: nothing else runs
    step matmul 60 bench matmul matmul $model --vocab-size "$odd"
    step matmul_padded 60 bench matmul_padded matmul $model --vocab-size "$padded"
    step kernels 80 bench kernels kernels $model --vocab-size "$odd"
    step gpt2 90 bench gpt2 step $model --vocab-size "$odd"
    step gpt2_padded 60 bench gpt2_padded step $model --vocab-size "$padded"

    # Names and times of all kernels of a step, cuBLASLt's too: nvjet_* loads by TMA, sm80_* and cutlass_* do not.
    needs ncu ncu_names ncu_attention && {
        step ncu_names 60 profiled --metrics gpu__time_duration.sum --print-summary per-kernel --csv
        step ncu_attention 60 profiled -k regex:attention -s 3 -c 3 --section SpeedOfLight --section Occupancy \
            --section WarpStateStats --section LaunchStats --section ComputeWorkloadAnalysis
    }
    needs compute-sanitizer memcheck racecheck synccheck initcheck && {
        for name in memcheck racecheck synccheck initcheck; do
            concurrent "$name" 110 sanitized "$name"
            concurrent "${name}_bf16" 110 sanitized "$name" --bf16
        done
        wait_all
    }

    # Several ranks on this GPU: first through host memory, then by NCCL
    needs mpirun dp2 tp2 pp2 nccl_dp2 nccl_tp2 nccl_pp2 nccl_gpipe nccl_interleaved nccl_zb nccl_zero2 nccl_lora bytes \
        exact tests && {
        for name in dp tp pp; do concurrent "${name}2" 60 ranks 2 --bf16 --global-batch-size 4 "--$name" 2; done
        wait_all
        step nccl_dp2 60 nccl --dp 2 --global-batch-size 4
        step nccl_tp2 60 nccl --tp 2 --sequence-parallel --micro-batch-size 2
        step nccl_pp2 60 nccl --pp 2 --global-batch-size 4
        step nccl_gpipe 60 nccl --pp 2 --schedule gpipe --global-batch-size "$micros" --train-iters 1
        step nccl_interleaved 60 nccl --pp 2 --schedule interleaved --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 4
        step nccl_zb 60 nccl --pp 2 --schedule zb --global-batch-size 4
        step nccl_zero2 60 nccl --dp 2 --zero 2 --reduce-buffers 2 --global-batch-size 4
        step nccl_lora 60 nccl --dp 2 --zero 3 --global-batch-size 4 $(family llama) $lora
        step bytes 5 nccl_bytes
        step exact 150 exact
        [ -n "$emulated" ] || step tests 120 env TRINE_CUDA_LIBRARY="$PWD/$object" BUILD="$build" \
            tools/mpirun.sh -np 1 "$build/tests/train/cuda"
    }
    [ -z "$large" ] || step gpt2_xl 90 bench gpt2_xl step $large
    [ -z "$llama" ] || step llama 90 bench llama step $llama
}

if [ -n "$list" ]; then
    steps
    exit
fi
mkdir -p "$out"
out=$(realpath "$out") logs=$(mktemp -d)
: >"$out/summary.txt"
rm -f "$out"/*.json
finish() {
    rm -rf "$logs"/*.bin "$logs"/*.line "$logs"/{llama,qwen3}
    tar czf "$out/logs.tar.gz" -C "$logs" .
    rm -rf "$logs"
}
trap finish EXIT
trap 'exit 130' INT TERM
export build object cuda logs out small tiny words odd micro iterations emulated programs type lora
# shellcheck disable=SC2046  # all of them
export -f $(compgen -A function)
steps
say "$passed passed, $failed failed, $skipped skipped in $((SECONDS - since)) s; summary, figures and logs are in $out"
[ $failed -eq 0 ]
