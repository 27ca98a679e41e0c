#!/bin/sh
# Runs that use NCCL: NCCL missing, too old, or in another folder; and pipelines with more
# pending messages than any other schedule has. On the emulated GPU (emu).
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

# ---- Finding NCCL

# shellcheck disable=SC2086  # words are meant to be split
job 1 $alone
[ $status -eq 0 ] && prints 1 "step    1/1 | loss" && prints 0 "NCCL on"
result $? "one GPU needs no NCCL and does not look for it"

# shellcheck disable=SC2086
job 2 $alone --dp 2
[ $status -eq 0 ] && prints 1 "no NCCL on $(hostname): libnccl_emu.so: cannot open shared object file" &&
    prints 1 "set NCCL_HOME to the folder" && prints 1 "transport staged shm: dp" && prints 1 "step    1/1 | loss"
result $? "two GPUs without NCCL: the banner says why, and data goes through the host"

# shellcheck disable=SC2086
job 2 $alone --dp 2 --transport nccl
messages 1 && says 1 "--transport nccl: NCCL is not available on $(hostname): libnccl_emu.so" && ended
result $? "--transport nccl without NCCL is refused"

export NCCL_HOME="$dir/home"
# shellcheck disable=SC2086
job 2 $alone --dp 2
[ $status -eq 0 ] && prints 1 "transport nccl: dp" && prints 1 ", NCCL 2.28.0 (launches in order)" && prints 0 "no NCCL"
result $? "NCCL is loaded from NCCL_HOME"

export NCCL_HOME="$dir/broken"
# shellcheck disable=SC2086
job 2 $alone --dp 2
[ $status -eq 0 ] && prints 1 "no NCCL on $(hostname): $dir/broken/lib64/libnccl_emu.so: " &&
    prints 0 "set NCCL_HOME"
result $? "a broken library in NCCL_HOME is reported by name"
unset NCCL_HOME

export TRINE_EMU_NCCL_VERSION=21707
# shellcheck disable=SC2086
job 2 $gpu --dp 2
[ $status -eq 0 ] && prints 1 "libnccl_emu.so is NCCL 2.17.7; 2.18 or newer is needed" &&
    prints 1 "transport staged shm: dp"
result $? "an NCCL that is too old is reported and not used"
unset TRINE_EMU_NCCL_VERSION

# ---- Many pending messages

losses() {
    tr '\r' '\n' <"$dir/out" | sed -n 's/.*step .*loss \([0-9.]*\).*/\1/p'
}

# near FILE: the job has as many losses as FILE, equal up to the different order of additions in kernels
# (docs/numbers.md): 1e-6 of 4.2, and the last digit.
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
result $? "GPipe over NCCL with 129 micro-batches, in training and evaluation: the losses of the cpu device"

done_testing
