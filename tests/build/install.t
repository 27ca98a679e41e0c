#!/bin/bash
# TEST timeout=1800
#
# Installs into an empty folder and builds a program against the installed files only, with the flags
# of pkg-config: with the shared library and with the archive. Then tests the programs and their manual
# pages, other directories, and a library for another processor.
set -eu
. tests/lib.sh
needs nm readelf pkg-config make

cat >"$dir/program.c" <<'END'
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

# The package file has the final location of the files, without DESTDIR.
with() {
    PKG_CONFIG_PATH=$dir/usr/lib/pkgconfig pkg-config --define-variable=prefix="$dir/usr" "$@" trine
}

shared() {
    # shellcheck disable=SC2046  # split into arguments
    "${CC:-cc}" $(with --cflags) "$dir/program.c" -o "$dir/shared" $(with --libs) &&
        "$dir/shared" && tools/mpirun.sh -np 2 "$dir/shared" sum &&
        readelf -d "$dir/shared" | grep -q 'NEEDED.*libtrine\.so\.[0-9]*\]'
}

archive() {
    local libs
    libs=$(with --libs --static)
    # shellcheck disable=SC2046,SC2086
    "${CC:-cc}" $(with --cflags) "$dir/program.c" -o "$dir/static" ${libs/-ltrine/-l:libtrine.a} &&
        "$dir/static" && tools/mpirun.sh -np 2 "$dir/static" sum && ! readelf -d "$dir/static" | grep -q 'libtrine\.so'
}

# By find_package, in an empty folder: examples/mesh.c, which then runs on two ranks.
found_by_cmake() {
    mkdir "$dir/cmake" && cp examples/mesh.c "$dir/cmake/" &&
        sed "s/@MAJOR_MINOR@/$(with --modversion | cut -d . -f 1,2)/" <<'END' >"$dir/cmake/CMakeLists.txt" &&
cmake_minimum_required(VERSION 3.13)
project(mesh C)
foreach(other 99 0.99)
    find_package(trine ${other} QUIET)
    if(trine_FOUND)
        message(FATAL_ERROR "trine ${trine_VERSION} passes for ${other}")
    endif()
endforeach()
find_package(trine @MAJOR_MINOR@ REQUIRED)
add_executable(mesh mesh.c)
target_link_libraries(mesh PRIVATE Trine::trine)
END
        cmake -S "$dir/cmake" -B "$dir/cmake/build" -DCMAKE_PREFIX_PATH="$dir/usr" && cmake --build "$dir/cmake/build" &&
        tools/mpirun.sh -np 2 "$dir/cmake/build/mesh" && readelf -d "$dir/cmake/build/mesh" | grep -q "RUNPATH.*$dir/usr/lib"
}

# Without the library the package says what is missing.
no_library() {
    mkdir -p "$dir/half/lib/cmake" && cp -r "$dir/usr/lib/cmake/trine" "$dir/half/lib/cmake/" &&
        ! cmake -S "$dir/cmake" -B "$dir/cmake/half" -DCMAKE_PREFIX_PATH="$dir/half" &&
        tr -s ' \n' ' ' <"$dir/said" | grep -q "half/lib/libtrine.so.[0-9.]*, which belongs to trine [0-9.]*, does not exist"
}

# The functions and variables of the headers.
declared() {
    sed 's|^ *//.*||' include/*.h | tr '\n' ' ' | sed 's|/\*|\n/*|g; s|\*/|*/\n|g' | grep -v '^/\*' | tr '\n' ' ' >"$dir/headers"
    grep -oE '\btrine_[a-z0-9_]+\([^()]*\);' "$dir/headers" | sed 's/(.*//'
    grep -oE '\bextern const [a-z_]+ [^;]*' "$dir/headers" | sed 's/^extern const [a-z_]* //; s/, /\n/g'
}
# Other exported symbols could collide with those of a program. Each has the version that its library's name has.
only_ours() {
    declared | sort -u | sed "s/$/@@TRINE_$(with --modversion | cut -d . -f 1)/" | sort >"$dir/declared"
    [ -s "$dir/declared" ] &&
        nm -D --defined-only "$dir/usr/lib/libtrine.so" | awk '$2 != "A" { print $3 }' | sort | diff "$dir/declared" -
}

# The CUDA object, if it was built.
object_too() {
    ! grep -q CUDA_NVCC "$BUILD/cuda.mk" || [ -e "$dir/usr/lib/libtrine_cuda.so" ]
}

version() {
    [ "$(with --modversion)" = "$(sed -n 's/.*TRINE_VERSION "\(.*\)"/\1/p' include/trine.h)" ]
}

nothing_left() {
    [ -z "$(find "$dir/usr" ! -type d)" ]
}

# The outer make's variables (CC, SAN, ...) are passed in MAKEFLAGS, and what the CUDA object was built for is in cuda.mk:
# nothing is built again, which would take minutes and change what other tests read.
make_install() {
    make "$cuda" BUILD="$BUILD" DESTDIR="$dir" PREFIX=/usr "$@"
}
nothing_built() {
    : >"$dir/before"
    make_install install && find "$BUILD" -newer "$dir/before" \( -path "$BUILD/obj/*" -o -path "$BUILD/cuda/*" \) -type f >"$dir/built" &&
        cat "$dir/built" && [ ! -s "$dir/built" ]
}

cuda=$(sed -n '1s/^.* \(CUDA_SM=[0-9 ]*\) [0-9]* [0-9]*$/\1/p' "$BUILD/cuda.mk" 2>/dev/null || true)
[ -n "$cuda" ] && [ -e "$BUILD/libtrine_cuda.so" ] || cuda=CUDA=0
check "make install, which builds nothing" nothing_built
check "a program with the shared library" shared
check "a program with the archive" archive
check "the shared library exports what the headers declare, with its version" only_ours
if command -v cmake >/dev/null; then
    check "a program with find_package" found_by_cmake
    check "without the library find_package names it" no_library
else
    skip "a program with find_package" "cmake not found"
    skip "without the library find_package names it" "cmake not found"
fi
check "the CUDA object is installed if it was built" object_too
check "pkg-config has the version" version

programs="trine-train $(cd tools && ls ./*.c | sed 's|^./||; s|\.c$||; s|_|-|g' | tr '\n' ' ')"

# Every program is installed and prints its own name.
programs_too() {
    for p in $programs; do
        "$dir/usr/bin/$p" --help >"$dir/help" && grep -q "^Usage: .*$p " "$dir/help" || { echo "$p"; return 1; }
    done
}
check "the tools and the trainer are installed" programs_too

# A table of no rows needs the machine only.
machines_too() {
    echo heads,hidden >"$dir/rows.csv"
    for file in hardware/*.json; do
        name=$(basename "$file" .json)
        cmp "$file" "$dir/usr/share/trine/$file" &&
            (cd "$dir" && usr/bin/trine-plan --hardware "$name" --csv rows.csv) >"$dir/out" || return 1
    done
}
check "the files of machines are installed, and found" machines_too

versions() {
    local version
    version=$(sed -n 's/.*TRINE_VERSION *"\(.*\)".*/\1/p' include/trine.h)
    for p in $programs; do
        [ "$("$dir/usr/bin/$p" --version)" = "$p $version" ] || { echo "$p"; return 1; }
    done
}
check "each prints its name and version" versions

# Made from the same table as the help: each option once.
options_of() {
    sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' | sort
}
pages_too() {
    local page
    for p in $programs; do
        page=$dir/usr/share/man/man1/$p.1
        "$dir/usr/bin/$p" --help | options_of >"$dir/options" && [ -s "$dir/options" ] &&
            sed -n 's/^\\fB\\-\\-\([a-z0-9\\-]*\)\\fR.*/\1/p' "$page" | sed 's/\\-/-/g' | sort | cmp - "$dir/options" &&
            grep -q "^$(echo "$p" | sed 's/-/\\\\-/g') \\\\- [a-z]" "$page" || { echo "$p"; return 1; }
    done
}
check "each has a manual page with every option" pages_too

# tests/base/completion.t tries them.
completions_too() {
    for p in $programs; do
        bash -ec ". $dir/usr/share/bash-completion/completions/$p && complete -p $p" | grep -q -- '-F _trine' || { echo "$p"; return 1; }
    done
}
check "each has a completion for bash" completions_too

# As rendered by man: no warnings; the name, a heading and an option at the start of their lines.
rendered() {
    for p in $programs; do
        groff -man -Tascii -P-c -P-b -P-u -ww "$dir/usr/share/man/man1/$p.1" >"$dir/page" 2>"$dir/warnings" &&
            [ ! -s "$dir/warnings" ] && grep -q "^ *$p  *-  *[a-z]" "$dir/page" && grep -q '^OPTIONS$' "$dir/page" &&
            grep -q '^       --help, -h$' "$dir/page" || { echo "$p"; cat "$dir/warnings"; return 1; }
    done
}
if groff -man -Tascii </dev/null >/dev/null 2>&1; then check "man can show them" rendered; else
    skip "man can show them" "groff not found"
fi

# ---- Another processor ----

# A library built for instruction sets that no processor with AVX2 has: only the file that records them
# differs. xop and fma4 were AMD's until 2016.
other_archive() {
    cp "$dir/usr/lib/libtrine.a" "$dir/other.a"
    "${CC:-cc}" -mxop -mfma4 -fPIC -Iinclude -Isrc -c src/base/processor_built_for.c -o "$dir/processor_built_for.o" &&
        ar r "$dir/other.a" "$dir/processor_built_for.o"
}

# refused COMMAND...: a line that names what is missing, and nothing else
refused() {
    run "$@"
    [ $status = 1 ] && [ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/err")" = 1 ] &&
        grep -q '^trine: .*: this processor lacks .*xop, fma4, which this build of Trine requires; build it on this machine, or with make MARCH=x86-64' "$dir/err"
}

other_static() {
    local libs
    libs=$(with --libs --static)
    # shellcheck disable=SC2046,SC2086
    other_archive && "${CC:-cc}" $(with --cflags) "$dir/program.c" -o "$dir/other" ${libs/-ltrine/$dir/other.a} &&
        refused "$dir/other"
}

other_shared() {
    local libs
    libs=$(with --libs --static)
    mkdir -p "$dir/lib"
    # shellcheck disable=SC2086
    "${CC:-cc}" -shared -o "$dir/lib/$(readlink "$dir/usr/lib/libtrine.so")" \
        -Wl,--version-script=tools/libtrine.map -Wl,--whole-archive "$dir/other.a" \
        -Wl,--no-whole-archive ${libs/-ltrine/} && refused env LD_LIBRARY_PATH="$dir/lib" "$dir/shared"
}

case $(uname -m) in
x86_64)
    check "an archive for another processor is refused" other_static
    check "a shared library for another processor is refused" other_shared
    ;;
esac

check "make uninstall" make_install uninstall
check "no files are left" nothing_left

# ---- Other directories ----

elsewhere() {
    make "$cuda" BUILD="$BUILD" prefix="$dir/opt" libdir="$dir/opt/a/b" bindir="$dir/opt/programs" mandir="$dir/opt/manual" \
        includedir="$dir/opt/headers" PROGRAMS="trine-train trine-tokens" "$@"
}
placed() {
    elsewhere install && [ -e "$dir/opt/a/b/libtrine.a" ] && [ -x "$dir/opt/programs/trine-train" ] &&
        [ -e "$dir/opt/manual/man1/trine-train.1" ] && [ -e "$dir/opt/headers/trine.h" ] &&
        [ "$(PKG_CONFIG_PATH=$dir/opt/a/b/pkgconfig pkg-config --cflags --libs trine | sed 's/ *$//')" = \
            "-I$dir/opt/headers -L$dir/opt/a/b -ltrine -Wl,-rpath,$dir/opt/a/b" ]
}
check "other directories" placed

# Programs find the installed CUDA object; the emulated one is used here.
object_found() {
    cp "$BUILD/emu/libtrine_cuda.so" "$dir/opt/a/b/" &&
        "$dir/opt/programs/trine-tokens" --out "$dir/text" include/trine.h &&
        (cd / && "$dir/opt/programs/trine-train" --data-path "$dir/text_train.bin" --num-layers 1 --hidden-size 32 \
            --num-attention-heads 2 --seq-length 16 --train-iters 1 --threads 1 --device cuda) &&
        grep -q '^device *cuda' "$dir/said"
}
check "trine-train finds the CUDA object" object_found
check "make uninstall from the other directories" elsewhere uninstall
nothing_there() {
    [ -z "$(find "$dir/opt" ! -type d)" ]
}
check "no file is left in the other directories" nothing_there
done_testing
