#!/bin/sh
# The headers in C++: each alone, twice, and all together, in the standards since C++11, by each C++ compiler that is
# here, without a warning; and a program of C++ that is linked to the library. trine.h brings no <mpi.h>.
. tests/lib.sh

# MPICH 5 tells what links as well when it is asked for what compiles, which Clang finds unused.
warnings="-Wall -Wextra -Wpedantic -Wconversion -Werror -Wno-unused-command-line-argument"
# The flags of MPI's compiler wrapper, for "compile" or "link", as the Makefile asks for them.
ask_mpi() {
    "${MPICC:-mpicc}" "--showme:$1" 2>"$dir/err" || "${MPICC:-mpicc}" "-$1_info" | cut -d' ' -f2-
}
mpi=$(ask_mpi compile | sed 's/-I/-isystem /g') libs=$(ask_mpi link)
library=$(realpath "$BUILD/libtrine.so.$(sed -n 's/.*TRINE_VERSION *"\(.*\)".*/\1/p' include/trine.h)")

(cd include && for header in *.h; do
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$dir/${header%.h}.cc"
done)
for header in include/*.h; do echo "#include \"${header#include/}\""; done >"$dir/all.cc"
sort -r "$dir/all.cc" >"$dir/reversed.cc"

{
    grep -v trine_mpi.h "$dir/all.cc"
    printf '#ifdef MPI_VERSION\n#error <mpi.h> is included\n#endif\n'
} >"$dir/no_mpi.cc"

cat >"$dir/program.cc" <<'END'
#include "trine.h"

int main() {
    trine_config config = trine_config_default();
    trine_layout layout = {};
    layout.dp = config.parallel.layout.size[TRINE_AXIS_TP];
    trine_world *world;
    if (trine_world_create(&world, nullptr, nullptr) != TRINE_OK) trine_abort(nullptr);
    int bad = trine_world_size(world) != layout.dp;
    trine_world_destroy(&world);
    return bad;
}
END

# compiles COMPILER STANDARD
compiles() {
    for file in "$dir"/*.cc; do
        # shellcheck disable=SC2086  # split into arguments
        "$1" "-std=c++$2" $warnings -Iinclude $mpi -fsyntax-only "$file" || return 1
    done
}

# links COMPILER
links() {
    # shellcheck disable=SC2086
    "$1" -std=c++11 $warnings -Iinclude $mpi "$dir/program.cc" -o "$dir/program" "$library" $libs &&
        ln -sf "$library" "$dir/libtrine.so.0" && LD_LIBRARY_PATH=$dir "$dir/program"
}

for compiler in g++ clang++; do
    if ! echo '#include <cstdlib>' | "$compiler" -fsyntax-only -x c++ - 2>"$dir/err"; then
        skip "headers and a program in C++, $compiler" "$compiler: not installed, or without C++'s library"
        continue
    fi
    for standard in 11 14 17 20; do check "every header, $compiler, C++$standard" compiles $compiler $standard; done
    check "a program of C++, $compiler" links $compiler
done

# A header that is not C++ is found.
printf 'typedef union { struct { int a; }; int b; } both;\n' >"$dir/bad.cc"
compiles g++ 11 >"$dir/said" 2>&1
[ $? = 1 ] && grep -q "bad.cc.*anonymous struct" "$dir/said"
result $? "an anonymous struct of C is not C++"
done_testing
