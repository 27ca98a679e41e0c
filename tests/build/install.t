#!/bin/bash
# Installs into an empty folder and builds a program against nothing but what is there, with the words
# of pkg-config: once with the shared library, once with the archive.
set -eu
. tests/needs.sh
needs nm readelf pkg-config make

build=${BUILD:-build}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
count=0

check() {
    count=$((count + 1))
    local name=$1
    shift
    if "$@" >"$root/said" 2>&1; then echo "ok $count - $name"; else
        echo "not ok $count - $name"
        sed 's/^/# /' "$root/said"
    fi
}

cat >"$root/program.c" <<'END'
#include <string.h>
#include <trine.h>
#include <trine_checkpoint.h>
#include <trine_generate.h>
#include <trine_linear.h>

int main(void) {
    trine_config config = trine_config_default();
    config.data.data_path = "tokens.bin"; /* the check opens no file */
    trine_status status = trine_config_check(&config, 1);
    trine_error_print();
    return status != TRINE_OK || strcmp(trine_status_text(TRINE_OK), "ok") != 0;
}
END

# The package file names the place where the files will stand at last; DESTDIR is only on the way.
with() {
    PKG_CONFIG_PATH=$root/usr/lib/pkgconfig pkg-config --define-variable=prefix="$root/usr" "$@" trine
}

shared() {
    # shellcheck disable=SC2046  # words are meant to be split
    "${CC:-cc}" $(with --cflags) "$root/program.c" -o "$root/shared" $(with --libs) &&
        LD_LIBRARY_PATH=$root/usr/lib "$root/shared" &&
        readelf -d "$root/shared" | grep -q 'NEEDED.*libtrine\.so\.[0-9]*\]'
}

archive() {
    local libs
    libs=$(with --libs --static)
    # shellcheck disable=SC2046,SC2086
    "${CC:-cc}" $(with --cflags) "$root/program.c" -o "$root/static" ${libs/-ltrine/-l:libtrine.a} &&
        "$root/static" && ! readelf -d "$root/static" | grep -q libtrine
}

# What a program that uses the library could clash with.
only_ours() {
    local others
    others=$(nm -D --defined-only "$root/usr/lib/libtrine.so" | awk '$3 !~ /^trine_/')
    [ -z "$others" ] || { echo "$others"; return 1; }
}

# The object for GPUs, where there was CUDA to make it.
object_too() {
    ! grep -q CUDA_NVCC "$build/cuda.mk" || [ -e "$root/usr/lib/libtrine_cuda.so" ]
}

version() {
    [ "$(with --modversion)" = "$(sed -n 's/.*TRINE_VERSION "\(.*\)"/\1/p' include/trine.h)" ]
}

nothing_left() {
    [ -z "$(find "$root/usr" ! -type d)" ]
}

# The outer make's variables (CC, SAN, ...) come along in MAKEFLAGS: nothing is built again.
make_install() {
    make BUILD="$build" DESTDIR="$root" PREFIX=/usr "$@"
}

check "make install" make_install install
check "a program with the shared library" shared
check "a program with the archive" archive
check "the shared library shows trine_* only" only_ours
check "the object for GPUs is there if CUDA was" object_too
check "pkg-config knows the version" version
check "make uninstall leaves nothing" make_install uninstall
check "no file is left" nothing_left
echo "1..$count"
