#!/bin/sh
# Cross-compiles for the Debian under ROOT: a chroot of arm64 with the packages of tools/deps.sh build test (tools/bare.sh
# with ARCH=arm64), to whose checkout, ROOT/trine, the build is copied, or its libraries only (tools/sysroot.sh). What was
# built before is kept under BUILD/aarch64 (BUILD: build).
# Usage: ROOT=FOLDER tools/cross.sh [TARGET...] (make's; default: all tests); MARCH: armv8-a.
set -eu

ROOT=$(realpath "${ROOT:?the folder of a Debian of arm64}")
cd "$(dirname "$(realpath "$0")")/.."
at=${BUILD:-build}/aarch64 machine=aarch64-linux-gnu
mkdir -p "$at"
ln -sfn "$ROOT" "$at/root"
sysroot=$(realpath -s "$at/root") # a name that stays, for ccache
lib=$sysroot/usr/lib/$machine
[ $# -gt 0 ] || set -- all tests

# A linker follows absolute links outside of the root, and where libm.so leads nowhere it takes libm.a.
find "$sysroot/usr/lib/$machine" -maxdepth 1 -type l -lname '/*' | while read -r link; do
    ln -sfnr "$sysroot$(readlink "$link")" "$link"
done

make CUDA=0 MARCH="${MARCH:-armv8-a}" BUILD="$at/build" \
    CC="$machine-gcc --sysroot=$sysroot" CXX="$machine-g++ --sysroot=$sysroot" \
    MPI_CFLAGS="-isystem $lib/openmpi/include" MPI_LIBS="-L$lib/openmpi/lib -lmpi -Wl,-rpath-link,$lib" "$@"
[ -d "$sysroot/trine" ] || exit 0
rm -rf "$sysroot/trine/build"
cp -a "$at/build" "$sysroot/trine/build"
