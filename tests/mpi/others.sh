# shellcheck shell=sh
# Shared by the scripts of this folder: runs the tests of make check with another MPI than the default one.
# Each MPI has a build of its own, BUILD/mpi/NAME.
. tests/lib.sh
# The settings of make check-full do not apply to the tests that are run here.
unset TRINE_FULL MAKEFLAGS MFLAGS MAKELEVEL

# installed: packages, or the script is skipped
installed() {
    packages mpi 2>"$dir/why" || skip_all "MPICH: $(tail -n 1 "$dir/why")"
}

# wheel NAME PACKAGE VERSIONS: installs it in a venv under BUILD; sets $commands to the folder of its commands
wheel() {
    installed
    venv=$BUILD/mpi/$1-wheel
    mkdir -p "$BUILD/mpi"
    if ! [ -x "$venv/bin/mpicc" ]; then
        python3 -m venv "$venv" >"$venv.log" 2>&1 || skip_all "python3 -m venv: $(tail -n 1 "$venv.log")"
        "$venv/bin/pip" install --disable-pip-version-check "$2$3" >>"$venv.log" 2>&1 ||
            skip_all "pip install $2: $(tail -n 1 "$venv.log")"
    fi
    commands=$(realpath "$venv")/bin
}

# check_with NAME MPICC MPIRUN
check_with() {
    at=$BUILD/mpi/$1
    mkdir -p "$at"
    export MPICC="$2" MPIRUN="$3" CUDA=0 # for the tests that call make, too
    "$MPIRUN" --version 2>&1 | sed 's/^/# /' | head -n 3
    nice make -j"$(nproc)" BUILD="$at" all tests >"$at/make.log" 2>&1
    status=$?
    tail -n 100 "$at/make.log" >"$dir/out"
    result $status "it builds"
    [ $failed -eq 0 ] || exit 1
    tests/run.sh "$at" all >"$at/check.log" 2>&1
    status=$?
    grep '^[0-9].* skipped: ' "$at/check.log" | sed 's/^/# /'
    # Each failed case with what it said, and the summary.
    { grep -A 12 '^not ok' "$at/check.log" | head -n 200 && sed -n '/^Test Summary Report/,$p' "$at/check.log" | tail -n 100; } >"$dir/out"
    result $status "the tests of make check pass: $(grep '^Files=' "$at/check.log" | cut -d , -f 1,2)"
    done_testing
}
