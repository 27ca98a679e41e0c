#!/bin/bash
# TEST timeout=600
#
# Installs into an empty folder and builds a program against nothing but what is there, with the words
# of pkg-config: once with the shared library, once with the archive. Then the programs and their manual
# pages, folders of other names, and a library for another processor.
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

/* Under mpirun: every rank adds up all ranks. */
static int sum_ranks(int argc, char **argv) {
    trine_world *world;
    trine_mesh *mesh;
    if (trine_world_create(&world, &argc, &argv) != TRINE_OK) return trine_error_print(), 1;
    int size = trine_world_size(world);
    int64_t sum = trine_world_rank(world) + 1;
    trine_status status = trine_mesh_create(&mesh, world, (trine_layout){size, 1, 1}, 0);
    if (status == TRINE_OK)
        status = trine_all_reduce(trine_mesh_group(mesh, TRINE_WORLD), &sum, &sum, 1, TRINE_I64, TRINE_SUM);
    trine_error_print();
    if (status != TRINE_OK) trine_abort(world);
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&world);
    return sum != size * (size + 1) / 2 || size < 2;
}

int main(int argc, char **argv) {
    if (argc > 1) return sum_ranks(argc, argv);
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
        LD_LIBRARY_PATH=$root/usr/lib tools/mpirun.sh -np 2 "$root/shared" sum &&
        readelf -d "$root/shared" | grep -q 'NEEDED.*libtrine\.so\.[0-9]*\]'
}

archive() {
    local libs
    libs=$(with --libs --static)
    # shellcheck disable=SC2046,SC2086
    "${CC:-cc}" $(with --cflags) "$root/program.c" -o "$root/static" ${libs/-ltrine/-l:libtrine.a} &&
        "$root/static" && tools/mpirun.sh -np 2 "$root/static" sum && ! readelf -d "$root/static" | grep -q libtrine
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

programs="trine-train $(cd tools && ls ./*.c | sed 's|^./||; s|\.c$||; s|_|-|g' | tr '\n' ' ')"

# Every program is there and says its own name.
programs_too() {
    for p in $programs; do
        "$root/usr/bin/$p" --help >"$root/help" && grep -q "^Usage: .*$p " "$root/help" || { echo "$p"; return 1; }
    done
}
check "the tools, and the trainer" programs_too

# From the same table as the help: each option that is there, once.
options_of() {
    sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' | sort
}
pages_too() {
    local page
    for p in $programs; do
        page=$root/usr/share/man/man1/$p.1
        "$root/usr/bin/$p" --help | options_of >"$root/options" && [ -s "$root/options" ] &&
            sed -n 's/^\\fB\\-\\-\([a-z0-9\\-]*\)\\fR.*/\1/p' "$page" | sed 's/\\-/-/g' | sort | cmp - "$root/options" &&
            grep -q "^$(echo "$p" | sed 's/-/\\\\-/g') \\\\- [a-z]" "$page" || { echo "$p"; return 1; }
    done
}
check "a manual page of each, with every option" pages_too

# As man shows it: no warning, the name, a heading and an option at the begin of their lines.
rendered() {
    for p in $programs; do
        groff -man -Tascii -P-c -P-b -P-u -ww "$root/usr/share/man/man1/$p.1" >"$root/page" 2>"$root/warnings" &&
            [ ! -s "$root/warnings" ] && grep -q "^ *$p  *-  *[a-z]" "$root/page" && grep -q '^OPTIONS$' "$root/page" &&
            grep -q '^       --help, -h$' "$root/page" || { echo "$p"; cat "$root/warnings"; return 1; }
    done
}
if groff -man -Tascii </dev/null >/dev/null 2>&1; then check "man can show them" rendered; else
    count=$((count + 1))
    echo "ok $count - man can show them # SKIP there is no groff"
fi

# ---- Another processor ----

# A library whose compiler was told to use what no processor has that has AVX2: only the file that says so
# differs. xop and fma4 were AMD's until 2016.
other_archive() {
    cp "$root/usr/lib/libtrine.a" "$root/other.a"
    "${CC:-cc}" -mxop -mfma4 -fPIC -Iinclude -Isrc -c src/base/processor_built_for.c -o "$root/processor_built_for.o" &&
        ar r "$root/other.a" "$root/processor_built_for.o"
}

# refused COMMAND...: a line that names what is missing, and nothing else
refused() {
    local status=0
    "$@" >"$root/out" 2>"$root/err" || status=$?
    echo "status $status"
    cat "$root/out" "$root/err"
    [ $status = 1 ] && [ ! -s "$root/out" ] && [ "$(wc -l <"$root/err")" = 1 ] &&
        grep -q '^trine: .*: this processor has no .*xop, fma4, which Trine was built for; build it on this machine, or with make MARCH=x86-64' "$root/err"
}

other_static() {
    local libs
    libs=$(with --libs --static)
    # shellcheck disable=SC2046,SC2086
    other_archive && "${CC:-cc}" $(with --cflags) "$root/program.c" -o "$root/other" ${libs/-ltrine/$root/other.a} &&
        refused "$root/other"
}

other_shared() {
    local libs
    libs=$(with --libs --static)
    mkdir -p "$root/lib"
    # shellcheck disable=SC2086
    "${CC:-cc}" -shared -o "$root/lib/$(readlink "$root/usr/lib/libtrine.so")" -Wl,--whole-archive "$root/other.a" \
        -Wl,--no-whole-archive ${libs/-ltrine/} && refused env LD_LIBRARY_PATH="$root/lib" "$root/shared"
}

case $(uname -m) in
x86_64)
    check "an archive for another processor says so" other_static
    check "a shared library, too" other_shared
    ;;
esac

check "make uninstall leaves nothing" make_install uninstall
check "no file is left" nothing_left

# ---- Folders of other names ----

elsewhere() {
    make BUILD="$build" prefix="$root/opt" libdir="$root/opt/a/b" bindir="$root/opt/programs" mandir="$root/opt/manual" \
        includedir="$root/opt/headers" "$@"
}
placed() {
    elsewhere install && [ -e "$root/opt/a/b/libtrine.a" ] && [ -x "$root/opt/programs/trine-train" ] &&
        [ -e "$root/opt/manual/man1/trine-train.1" ] && [ -e "$root/opt/headers/trine.h" ] &&
        [ "$(PKG_CONFIG_PATH=$root/opt/a/b/pkgconfig pkg-config --cflags --libs trine | sed 's/ *$//')" = \
            "-I$root/opt/headers -L$root/opt/a/b -ltrine" ]
}
check "folders of other names" placed

# Programs find the object for GPUs where it was installed; that of the tests will do.
object_found() {
    cp "$build/emu/libtrine_cuda.so" "$root/opt/a/b/" &&
        "$root/opt/programs/trine-tokens" --out "$root/text" include/trine.h &&
        (cd / && "$root/opt/programs/trine-train" --data-path "$root/text_train.bin" --num-layers 1 --hidden-size 32 \
            --num-attention-heads 2 --seq-length 16 --train-iters 1 --threads 1 --device cuda) &&
        grep -q '^device *cuda' "$root/said"
}
check "trine-train finds the object for GPUs" object_found
check "make uninstall there" elsewhere uninstall
nothing_there() {
    [ -z "$(find "$root/opt" ! -type d)" ]
}
check "no file is left there" nothing_there
echo "1..$count"
