#!/bin/sh
# Runs whose groups want NCCL: without it, with one that is too old, with one elsewhere; and pipelines with more
# messages under way than a step of another schedule ever has. On the emulated GPU (emu).
. tests/lib.sh

token_file "$data" 20240520 1 4096 4096
object=$BUILD/emu/libtrine_cuda.so
emulated=$BUILD/emu/libnccl_emu.so
mkdir -p "$dir/alone" "$dir/home/lib" "$dir/broken/lib64"
cp "$object" "$dir/alone/"
cp "$emulated" "$dir/home/lib/"
echo "no object" >"$dir/broken/lib64/libnccl_emu.so"
alone="--device cuda --cuda-library $dir/alone/libtrine_cuda.so --data-path $data --train-iters 1"
gpu="--device cuda --cuda-library $object --data-path $data --train-iters 1"
unset NCCL_HOME

# ---- Whether there is NCCL

# shellcheck disable=SC2086  # words are meant to be split
job 1 $alone
[ $status -eq 0 ] && prints 1 "step    1/1 | loss" && prints 0 "NCCL on"
result $? "one GPU needs no NCCL, and looks for none"

# shellcheck disable=SC2086
job 2 $alone --dp 2
[ $status -eq 0 ] && prints 1 "no NCCL on $(hostname): libnccl_emu.so: cannot open shared object file" &&
    prints 1 "NCCL_HOME names the folder" && prints 1 "transport staged shm: dp" && prints 1 "step    1/1 | loss"
result $? "two GPUs without NCCL: the banner says why, and the host moves what NCCL would"

# shellcheck disable=SC2086
job 2 $alone --dp 2 --transport nccl
messages 1 && says 1 "--transport nccl: there is no NCCL on $(hostname): libnccl_emu.so" && ended
result $? "NCCL that was asked for and is not there"

export NCCL_HOME="$dir/home"
# shellcheck disable=SC2086
job 2 $alone --dp 2
[ $status -eq 0 ] && prints 1 "transport nccl: dp" && prints 1 ", NCCL 2.28.0" && prints 0 "no NCCL"
result $? "NCCL where NCCL_HOME says"

export NCCL_HOME="$dir/broken"
# shellcheck disable=SC2086
job 2 $alone --dp 2
[ $status -eq 0 ] && prints 1 "no NCCL on $(hostname): $dir/broken/lib64/libnccl_emu.so: " &&
    prints 0 "NCCL_HOME names"
result $? "what is broken there is named, not avoided"
unset NCCL_HOME

export TRINE_EMU_NCCL_VERSION=21707
# shellcheck disable=SC2086
job 2 $gpu --dp 2
[ $status -eq 0 ] && prints 1 "libnccl_emu.so is NCCL 2.17.7; 2.18 or newer is needed" &&
    prints 1 "transport staged shm: dp"
result $? "NCCL that is too old is named, and not used"
unset TRINE_EMU_NCCL_VERSION

# ---- Many messages under way

losses() {
    tr '\r' '\n' <"$dir/out" | sed -n 's/.*step .*loss \([0-9.]*\).*/\1/p'
}

# near FILE: the losses of the job, as many as in FILE, are what a kernel's other order of additions leaves of
# those (docs/numbers.md): 1e-6 of 4.2, and the last digit.
near() {
    losses | paste "$1" - | awk '{ off = $1 - $2; if (NF != 2 || off > 6e-6 || off < -6e-6) bad = 1 }
                                 END { exit bad || NR != 3 }'
}

tiny="--hidden-size 4 --num-attention-heads 1 --seq-length 2 --vocab-size 66 --micro-batch-size 1
      --global-batch-size 129 --train-iters 1 --data-path $data --val-data-path $data --eval-iters 1"
# shellcheck disable=SC2086
job 1 $tiny
losses >"$dir/cpu"
# shellcheck disable=SC2086
job 2 $gpu $tiny --pp 2 --schedule gpipe --transport nccl
[ $status -eq 0 ] && near "$dir/cpu"
result $? "GPipe with 129 micro-batches, in training and in evaluations, over NCCL: the processor's losses"

done_testing
