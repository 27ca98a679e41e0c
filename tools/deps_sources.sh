#!/bin/bash
# Builds libraries from their sources under a prefix, without root: what tools/deps.sh --user does where there is no apt,
# or with SOURCES=yes. Usage: tools/deps_sources.sh PREFIX PACKAGE...: packages by Debian's names.
#
# The files are not fetched here. They must lie in PREFIX/sources; what is missing there is listed with its version,
# SHA-256 and address, and the exit status is 1. A file with another hash is refused. The addresses are those of Debian
# 12; https://snapshot.debian.org keeps the same files. A compiler for C and C++, make, CMake, xz and bzip2 must be
# there.
set -euo pipefail

prefix=$1
shift
sources=$prefix/sources
pool=http://deb.debian.org/debian/pool/main

# NAME VERSION FILE SHA-256 of Debian's package index, PACKAGES: what needs it
table="
openmpi  4.1.4  o/openmpi/openmpi_4.1.4.orig.tar.xz ddaee7dbdb01eb4fab1fda5b5e03e8bbff026711806c095c1f39bb410f99f263 libopenmpi-dev openmpi-bin
onednn   2.6.3  o/onednn/onednn_2.6.3.orig.tar.gz fd47d2470000b5015f6e34134f799683050f81cbc04f53a3b0d323df1bb900bc libdnnl-dev
cjson    1.7.15 c/cjson/cjson_1.7.15.orig.tar.gz 5308fd4bd90cef7aa060558514de6a1a4a0819974a26e6ed13973c5f624c24b2 libcjson-dev
xxhash   0.8.1  x/xxhash/xxhash_0.8.1.orig.tar.gz 3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c libxxhash-dev
pcre2    10.42  p/pcre2/pcre2_10.42.orig.tar.gz c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f libpcre2-dev
utf8proc 2.8.0  u/utf8proc/utf8proc_2.8.0.orig.tar.gz a0a60a79fe6f6d54e7d411facbfcc867a6e198608f2cd992490e46f04b1bcecc libutf8proc-dev
zlib     1.2.13 z/zlib/zlib_1.2.13.dfsg.orig.tar.bz2 71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1 zlib1g-dev
zstd     1.5.4  libz/libzstd/libzstd_1.5.4+dfsg2.orig.tar.xz 8cf4bbb65e77ec348d052c8d6230eba66d435bddf64c8b5be2fcb16880c19953 libzstd-dev
"

build_openmpi() {
    ./configure --prefix="$prefix" --disable-mpi-fortran --disable-oshmem --enable-mpi-cxx=no &&
        make_all install
}
build_onednn() {
    cmake -S . -B build -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release \
        -DDNNL_BUILD_TESTS=OFF -DDNNL_BUILD_EXAMPLES=OFF &&
        cmake --build build --parallel "$(nproc)" --target install
}
build_cjson() {
    make_all shared -j1 R_CFLAGS="-O2 -fPIC" &&
        make_all install-cjson PREFIX="$prefix" LIBRARY_PATH=lib INCLUDE_PATH=include/cjson
}
build_xxhash() {
    make_all install PREFIX="$prefix"
}
build_pcre2() {
    ./configure --prefix="$prefix" --libdir="$prefix/lib" --enable-jit &&
        make_all install
}
build_utf8proc() {
    make_all install prefix="$prefix"
}
build_zlib() {
    ./configure --prefix="$prefix" --libdir="$prefix/lib" &&
        make_all install
}
build_zstd() {
    make_all -C lib install PREFIX="$prefix"
}

# This script may be called by make, whose variables (BUILD, CFLAGS, ...) are not those of these sources.
make_all() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -j"$(nproc)" "$@"
}

# chosen PACKAGE...: the rows that they need; what has none is said
chosen() {
    local package
    for package in "$@"; do
        awk -v package="$package" '
            { for (i = 5; i <= NF; i++) if ($i == package) { print; found = 1 } }
            END { exit !found }' <<<"$table" || echo "not built here, install or load it: $package" >&2
    done | sort -u
}

# missing ROW...: those whose files are not there
missing() {
    local name version file
    while read -r name version file _; do
        [ -e "$sources/${file##*/}" ] || echo "$name $version"
    done
}

# verified FILE SHA-256
verified() {
    local sum
    sum=$(sha256sum "$1" | cut -d ' ' -f 1)
    [ "$sum" = "$2" ] || {
        echo "tools/deps.sh: $1: SHA-256 $sum, not $2; fetch it again" >&2
        return 1
    }
}

# compile NAME FILE: in a folder of its own, with the output in PREFIX/sources/NAME.log
compile() {
    local folder=$sources/$1
    rm -rf "$folder"
    mkdir "$folder"
    echo "building $1 (output: $sources/$1.log)"
    (
        tar -xf "$sources/$2" -C "$folder" --strip-components 1 && cd "$folder" && "build_$1"
    ) >"$sources/$1.log" 2>&1 || {
        tail -n 20 "$sources/$1.log" >&2
        return 1
    }
    rm -rf "$folder"
    touch "$sources/$1.built"
}

mkdir -p "$sources"
rows=$(chosen "$@")
if [ -n "$rows" ] && [ -n "$(missing <<<"$rows")" ]; then
    echo "sources to fetch into $sources (version, SHA-256, address):"
    while read -r name version file sum _; do
        [ -e "$sources/${file##*/}" ] || printf '  %-8s %-7s %s  %s\n' "$name" "$version" "$sum" "$pool/$file"
    done <<<"$rows"
    exit 1
fi
while read -r name _ file sum _; do
    [ -z "$name" ] || verified "$sources/${file##*/}" "$sum"
done <<<"$rows"
while read -r name _ file _; do
    if [ -n "$name" ] && [ ! -e "$sources/$name.built" ]; then compile "$name" "${file##*/}" </dev/null; fi
done <<<"$rows"
