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

mkdir "$dir/share"
cat docs/*.md >"$dir/share/text"
MINUTES=50 LIMIT=3300 ARCH=arm64 SHARE="$dir/share" run tools/bare.sh \
    "tools/deps.sh build test" "host:tools/cross.sh all tests" "host:tests/build/old_arm.sh" \
    "tests/build/emulated.sh base" "tests/build/emulated.sh core" "tests/build/emulated.sh comm" \
    "tests/build/emulated.sh ops" "tests/build/emulated.sh golden" "tests/build/emulated.sh train /share/text /share/losses"
sed 's/^/# /' "$dir/out" "$dir/err"
result "$status" "it builds, passes the tests of base, core, comm, ops and golden, and trains"

near() {
    tests/build/emulated.sh train "$dir/share/text" "$dir/losses"
    paste -d ' ' "$dir/losses" "$dir/share/losses" |
        awk '$1 != $3 || $2 - $4 > 1e-4 || $4 - $2 > 1e-4 { print; bad = 1 } END { exit bad || NR != 12 }'
}
check "the losses are within 1e-4 of this machine's" near
done_testing
