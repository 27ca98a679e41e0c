#!/bin/bash
# TEST full=aarch64 timeout=3600
# 64-bit Arm under QEMU: what tools/cross.sh compiles passes tests of the layers below a training, and trains in three
# dimensions, with losses near those of this machine. As root, with binfmt_misc, in a Debian of arm64 in a chroot
# (tools/bare.sh). Otherwise, or with BINFMT=no, against libraries of arm64 that are only unpacked (tools/sysroot.sh):
# this machine's mpirun starts ranks each of which is a program under qemu-aarch64 -L. An emulation shows instructions,
# libraries and page sizes of Arm, but not its memory order (docs/memory-order.md).
set -eu
. tests/lib.sh

[ "$(uname -m)" != aarch64 ] || skip_all "64-bit Arm under QEMU: this is one; make check does more"
command -v apt-get >/dev/null || skip_all "64-bit Arm under QEMU: needs Debian or Ubuntu"
packages aarch64 bare 2>"$dir/why" || skip_all "64-bit Arm under QEMU: $(tail -n 1 "$dir/why")"

# chroot_is_possible: or why not
chroot_is_possible() {
    [ "${BINFMT:-yes}" != no ] || { echo "BINFMT=no"; return 1; }
    [ "$(id -u)" = 0 ] || { echo "not root"; return 1; }
    unshare --mount --pid --fork --mount-proc true || { echo "no namespaces"; return 1; }
    unshare --mount sh -c '[ -e /proc/sys/fs/binfmt_misc/register ] ||
        mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc' || { echo "no binfmt_misc"; return 1; }
}

mkdir "$dir/share"
cat docs/*.md >"$dir/share/text"

# Each program of the build is a script that runs it under QEMU: what starts programs need not know.
emulate() { # emulate ROOT FOLDER
    local root file name qemu
    root=$(realpath "$1") qemu=$(command -v qemu-aarch64-static)
    (cd "$BUILD/aarch64/build" && find . -type d) | while read -r name; do mkdir -p "$2/$name"; done
    (cd "$BUILD/aarch64/build" && find . -type f) | while read -r name; do
        file=$(realpath "$BUILD/aarch64/build/$name")
        case $name in
            *.so | *.so.* | *.a | *.o | *.d) ln -s "$file" "$2/$name" ;;
            *)
                [ -x "$file" ] || { ln -s "$file" "$2/$name"; continue; }
                # shellcheck disable=SC2016  # the script expands it
                printf '#!/bin/sh\nexec "%s" -0 "$0" -L "%s" "%s" "$@"\n' "$qemu" "$root" "$file" >"$2/$name"
                chmod +x "$2/$name"
                ;;
        esac
    done
}
with_sysroot() {
    local root=$BUILD/aarch64/libraries part
    tools/sysroot.sh arm64 "$root" && ROOT=$root tools/cross.sh all tests && ROOT=$root tests/build/old_arm.sh &&
        emulate "$root" "$dir/arm" || return 1
    export BUILD=$dir/arm # of the subshell
    for part in base core comm ops golden; do tests/build/emulated.sh $part || return 1; done
    tests/build/emulated.sh train "$dir/share/text" "$dir/share/losses"
}

if chroot_is_possible >"$dir/why" 2>&1; then
    MINUTES=50 LIMIT=3300 ARCH=arm64 SHARE="$dir/share" run tools/bare.sh \
        "tools/deps.sh build test" "host:tools/cross.sh all tests" "host:tests/build/old_arm.sh" \
        "tests/build/emulated.sh base" "tests/build/emulated.sh core" "tests/build/emulated.sh comm" \
        "tests/build/emulated.sh ops" "tests/build/emulated.sh golden" "tests/build/emulated.sh train /share/text /share/losses"
else
    echo "# no chroot: $(tail -n 1 "$dir/why")"
    (with_sysroot) >"$dir/out" 2>"$dir/err" && status=0 || status=$?
fi
sed 's/^/# /' "$dir/out" "$dir/err"
result "$status" "it builds, passes the tests of base, core, comm, ops and golden, and trains"

near() {
    tests/build/emulated.sh train "$dir/share/text" "$dir/losses"
    paste -d ' ' "$dir/losses" "$dir/share/losses" |
        awk '$1 != $3 || $2 - $4 > 1e-4 || $4 - $2 > 1e-4 { print; bad = 1 } END { exit bad || NR != 12 }'
}
check "the losses are within 1e-4 of this machine's" near
done_testing
