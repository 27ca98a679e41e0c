#!/bin/bash
# TEST full=aarch64 timeout=3600
# 64-bit Arm, on a Debian of arm64 in a chroot that QEMU emulates (tools/bare.sh): what tools/cross.sh compiles passes
# tests of the layers below a training, and trains in three dimensions, with losses near those of this machine. An
# emulation shows instructions, libraries and page sizes of Arm, but not its memory order (docs/memory-order.md).
# Needs root, on Debian or Ubuntu of another architecture, with binfmt_misc.
set -eu
. tests/lib.sh

[ "$(id -u)" = 0 ] || skip_all "a Debian of arm64: needs root"
[ "$(uname -m)" != aarch64 ] || skip_all "a Debian of arm64: this is one; make check does more"
command -v apt-get >/dev/null || skip_all "a Debian of arm64: needs Debian or Ubuntu"
unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip_all "a Debian of arm64: cannot create namespaces"
grep -qw binfmt_misc /proc/filesystems || skip_all "a Debian of arm64: this kernel has no binfmt_misc"
packages aarch64 bare 2>"$dir/why" || skip_all "a Debian of arm64: $(tail -n 1 "$dir/why")"

# Open MPI copies between processes with a system call that QEMU does not know.
open_mpi="OMPI_MCA_btl_vader_single_copy_mechanism=none"

# tested FOLDER or FOLDER/NAME...: a command that runs these tests, on at most four ranks
tested() {
    echo "$open_mpi MOST_RANKS=4 tests/run.sh build all $*"
}

# Those that take long in an emulation are left out: all that run for minutes, and those on emulated GPUs.
core='core/check core/chunks core/cut core/flat core/instructions core/program core/prove core/reductions'
comm='comm/alike comm/audit comm/board comm/clock comm/mesh comm/message comm/order comm/places comm/shm_life
    comm/shm_stress comm/shm_wakeups comm/split comm/tally comm/tree'
ops='ops/cpu ops/device ops/gradients ops/matmul ops/no_brgemm ops/precision ops/single ops/spans ops/threads'

mkdir "$dir/share"
# shellcheck disable=SC2086  # lists of names
MINUTES=50 LIMIT=3300 ARCH=arm64 SHARE="$dir/share" run tools/bare.sh \
    "tools/deps.sh build test" \
    "host:tools/cross.sh all tests" \
    "host:tests/build/old_arm.sh" \
    "$(tested base)" \
    "$(tested $core)" \
    "$(tested $comm)" \
    "$(tested $ops)" \
    "$(tested golden)" \
    "$open_mpi tests/build/emulated.sh /share/losses"
sed 's/^/# /' "$dir/out" "$dir/err"
result "$status" "it builds, passes the tests of base, core, comm, ops and golden, and trains"

near() {
    tests/build/emulated.sh "$dir/losses"
    paste -d ' ' "$dir/losses" "$dir/share/losses" |
        awk '$1 != $3 || $2 - $4 > 1e-4 || $4 - $2 > 1e-4 { print; bad = 1 } END { exit bad || NR != 12 }'
}
check "the losses are within 1e-4 of this machine's" near
done_testing
