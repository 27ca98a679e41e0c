#!/bin/bash
# TEST full=races timeout=7200
# The kernels of the library, compiled so that each access is seen (make RACES=1): tests of operators and a training
# run on them, with the search for races (emu/races.h). What the accesses of each kernel cost is compared
# with tests/emu/accesses: a kernel may not have more sectors or passes for the same accesses.
set -euo pipefail
. tests/lib.sh

races=$BUILD/races
run make -s CUDA=0 RACES=1 BUILD="$races" "$races/emu/libtrine_cuda.so" "$races/emu/libnccl_emu.so"
result $status "kernels that call at each access"
[ "$status" = 0 ] || exit 1
TRINE_CUDA_LIBRARY=$(realpath "$races")/emu/libtrine_cuda.so
TRINE_EMU_LIBRARY=$TRINE_CUDA_LIBRARY
export TRINE_CUDA_LIBRARY TRINE_EMU_LIBRARY TRINE_EMU_RACES=1 BUILD

# Programs of one process.
for test in gradients single; do
    TRINE_EMU_ACCESSES=$dir/accesses.$test LIMIT=1200 run "$BUILD/tests/ops/$test"
    result $status "ops/$test: no race"
done

# Programs of several: worlds within them.
several() { # TEST RANKS WORLDS
    TRINE_WORLDS=$3 LIMIT=1800 run tools/mpirun.sh -np "$2" "$BUILD/tests/$1"
    result $status "$1, worlds of $3 ranks: no race"
}
several train/cuda 1 1

# Races alone, beside each other: documents and 16 bits, and two ranks on one GPU, have the same kernels.
for test in documents types; do
    { timeout -k 5 3000 "$BUILD/tests/ops/$test" >"$dir/$test" 2>&1; echo $? >"$dir/$test.status"; } &
done
wait
for test in documents types; do
    tail -n 30 "$dir/$test" >"$dir/out"
    result "$(cat "$dir/$test.status")" "ops/$test: no race"
done
several train/cuda 2 2

# kernel, sectors an access, passes a pass that is needed; of each kernel the sums over gradients and single. They do not
# depend on the run: neither on the order of threads nor on the environment (staged_lead).
awk '!/^#/ { a[$1] += $2; s[$1] += $4; p[$1] += $6; l[$1] += $7 }
     END { for (k in a) printf "%s %.2f %.2f\n", k, s[k] / (a[k] ? a[k] : 1), p[k] / (l[k] ? l[k] : 1) }' \
    "$dir"/accesses.* | LC_ALL=C sort >"$dir/now"
if [ "${UPDATE:-}" ]; then { sed -n '/^#/p' tests/emu/accesses && cat "$dir/now"; } >"$dir/new" && cp "$dir/new" tests/emu/accesses; fi
awk 'FNR == NR { if (!/^#/) { s[$1] = $2; p[$1] = $3 } next }
     !($1 in s) { print $1 ": not in tests/emu/accesses"; bad = 1; next }
     $2 > s[$1] + 0.005 { print $1 ": " $2 " sectors an access, " s[$1] " before"; bad = 1 }
     $3 > p[$1] + 0.005 { print $1 ": " $3 " passes for one, " p[$1] " before"; bad = 1 }
     END { exit bad }' tests/emu/accesses "$dir/now" >"$dir/worse" && worse=0 || worse=1
cp "$dir/worse" "$dir/out"
result $worse "no kernel's accesses cost more"
done_testing
