#!/bin/bash
# The Makefile's own decisions: how many jobs, ccache, and who builds the CUDA object.
set -u
. tests/lib.sh
needs make

unset MAKEFLAGS MFLAGS CCACHE
printf 'include Makefile\nflags:\n\t@echo "$(MAKEFLAGS)"\nbelow:\n\t@$(MAKE) -f %s flags\ncached:\n\t@echo "$(COMPILE)"\n' \
    "$dir/Makefile" >"$dir/Makefile"
cores=$(nproc)

# flags TEXT ARGUMENTS...: make's flags have exactly these jobs
flags() {
    local want=$1 got
    shift
    got=$("$@" -f "$dir/Makefile" --no-print-directory BUILD="$dir/build" "${goal:-flags}" 2>&1)
    echo "$got"
    [ "$(grep -o -e ' -j[0-9]*' <<<"$got")" = " $want" ] && [[ $got != *warning* ]]
}

check "all cores" flags "-j$cores" make
check "-j of the command line" flags -j3 make -j3
check "-j1, too" flags -j1 make -j1
check "-j without a number" flags -j make -j
check "MAKEFLAGS of the environment" flags -j3 env MAKEFLAGS=-j3 make
goal=below
check "a make below has its parent's jobs" flags "-j$cores" make
check "and its parent's -j" flags -j3 make -j3

# MPI_ABI=1 with a library that has not the standard's binary interface; with one that has, its flags are linked.
abi() {
    make -f "$dir/Makefile" -n CUDA=0 BUILD="$dir/build" MPI_ABI=1 MPI_CFLAGS= "$@" "$dir/build/train_gpt" 2>&1
}
old_abi() {
    abi MPICC=/usr/bin/mpicc MPI_LIBS="-L/x -lmpi" | tee "$dir/said"
    grep -q 'MPI_ABI=1 needs -lmpi_abi, but /usr/bin/mpicc links.*-L/x -lmpi' "$dir/said" && grep -q 'Stop\.' "$dir/said"
}
new_abi() {
    abi MPI_LIBS="-L/x -lmpi_abi" | grep -q 'train_gpt .*-L/x -lmpi_abi '
}
check "MPI_ABI=1 refuses another library" old_abi
check "MPI_ABI=1 links libmpi_abi" new_abi

# Both at once would race.
alone() {
    [ "$(make -f "$dir/Makefile" -n BUILD="$dir/build" clean flags | grep -c -e ' -j')" = 0 ]
}
check "make clean beside another goal: one after the other" alone

# compiler ARGUMENTS...: what compiles
compiler() {
    make -f "$dir/Makefile" --no-print-directory BUILD="$dir/build" "$@" cached | awk '{ print $1 }'
}
cached() {
    mkdir -p "$dir/bin"
    printf '#!/bin/sh\n' >"$dir/bin/ccache"
    chmod +x "$dir/bin/ccache"
    [ "$(PATH=$dir/bin:$PATH compiler CC=cc)" = "$dir/bin/ccache" ] &&
        [ "$(PATH=$dir/bin:$PATH compiler CC=cc CCACHE=)" = cc ] &&
        [ "$(PATH=$dir/bin:$PATH compiler CC="ccache cc")" = ccache ]
}
check "ccache where it is installed, unless CC has it or CCACHE is empty" cached

# looks_for_cuda YES GOAL...: whether the goals look for CUDA, and so may build its object
looks_for_cuda() {
    local found=no
    if make -n BUILD="$dir/build" GPU= "${@:2}" 2>&1 | grep -q tools/cuda.sh; then found=yes; fi
    [ $found = "$1" ]
}
check "make looks for CUDA" looks_for_cuda yes all
check "make demo does not" looks_for_cuda no demo
check "nor does make check without a GPU" looks_for_cuda no check
check "with CUDA=1 it does" looks_for_cuda yes check CUDA=1
check "and with DEVICE=cuda" looks_for_cuda yes check DEVICE=cuda


# The library, an example, a tool, an installed program; trine.pc has not a maker of packages' flags.
linked() {
    make -n BUILD="$dir/build" CUDA=0 V=1 LDFLAGS=-Wl,-z,now installable "$dir/build/mesh" "$dir/build/trine-plan" >"$dir/lines" 2>&1
    grep -e ' -ldnnl' "$dir/lines" | grep -e ' -o ' >"$dir/links"
    for program in libtrine.so mesh trine-plan install/trine-plan; do
        grep "$dir/build/$program[0-9.]* " "$dir/links" | grep -q -e '-Wl,-z,now' || { echo "$program"; return 1; }
    done
    grep -q 's|@PRIVATE@|.*-ldnnl' "$dir/lines" && ! grep 's|@PRIVATE@|' "$dir/lines" | grep -q -e '-Wl,-z,now'
}
check "LDFLAGS" linked
done_testing
