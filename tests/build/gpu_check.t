#!/bin/bash
# Tests tools/gpu_check.sh: on the emulated GPU every step that needs no tool of NVIDIA's
# passes and writes its figures; a step that fails or hangs is a line of the summary, and the next one starts.
. tests/lib.sh
needs perl

export OUT=$dir/logs

# try ARGUMENTS...
try() {
    BUILD=$BUILD LIMIT=600 run tools/gpu_check.sh --emulated "$@"
}

# said RESULT STEP: the summary's result of the step
said() {
    grep -qE "^$1 +[0-9]+s $2" "$OUT/summary.txt"
}

# NVIDIA's tools may be installed, but do not work with the emulation. The programs are built already.
steps='!(build|ncu_*|memcheck*|racecheck*|synccheck*|initcheck*)'

try --only "$steps" 500
[ $status -eq 0 ] && ! grep -vE '^PASS' "$OUT/summary.txt" | grep -v ' passed, 0 failed'
result $? "every step passes on the emulated GPU"

wanted=$(tools/gpu_check.sh --emulated --list --only "$steps" | wc -l)
[ "$wanted" -ge 20 ] && [ "$(grep -c '^PASS' "$OUT/summary.txt")" -eq "$wanted" ]
result $? "the number of steps is that of the list"

status=0
for name in matmul matmul_padded kernels gpt2 gpt2_padded; do
    perl -MJSON::PP -e 'local $/; open my $f, "<", $ARGV[0] or exit 1; exit !decode_json(<$f>)->{machine}' \
        "$OUT/$name.json" || status=1
done
result $status "benchmarks write their figures"

tar tzf "$OUT/logs.tar.gz" | grep -q 'train_bf16.log' && ! tar tzf "$OUT/logs.tar.gz" | grep -q '\.bin'
result $? "the archive has the logs, and no data"

TRINE_EMU_FAIL=40 try --only '@(data|train_fp32|parity_fp32|pp2)' 300
[ $status -eq 1 ] && said PASS data && said FAIL train_fp32 && said FAIL parity_fp32 && said FAIL pp2 &&
    grep -q "illegal memory access" "$dir/out"
result $? "failed steps are reported, with the error's message"

# The step starts a process that would keep sleeping: the full process group is killed.
printf '#!/bin/sh\nsleep 1000 &\necho $! >%s\nwait\n' "$dir/sleeper" >"$dir/mpirun"
chmod +x "$dir/mpirun"
MPIRUN=$dir/mpirun try --only '@(data|nccl_pp2|facts)' 8
[ $status -eq 1 ] && said PASS data && said TIME nccl_pp2 &&
    ! grep -q '^State:.[^Z]' "/proc/$(cat "$dir/sleeper")/status" 2>/dev/null
result $? "a step that hangs is killed, with all its processes"

run tools/gpu_check.sh --none
[ $status -eq 2 ] && grep -q -h '^Usage: tools/gpu_check.sh' "$dir/out" "$dir/err"
result $? "an unknown option"

done_testing
