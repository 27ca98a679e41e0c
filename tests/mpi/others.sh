# shellcheck shell=sh
# What make check runs, with another MPI than the one that mpicc and mpirun are: what the scripts of this folder
# share. Each MPI has a build of its own, BUILD/mpi/NAME. Sourced from the top of the tree; speaks TAP.
BUILD=${BUILD:-build}
# What make check-full says to its tests is not for those that are run here.
unset TRINE_FULL MAKEFLAGS MFLAGS MAKELEVEL
# The packages that are missing come after the tests' PATH was made.
PATH=$PATH:/usr/bin:/bin

skip() {
    echo "1..0 # SKIP $1"
    exit 0
}

packages() {
    tools/deps.sh mpi 2>&1 | sed 's/^/# /'
}

# wheel NAME PACKAGE VERSIONS: leaves the folder of its commands, in a venv under BUILD, in $commands
wheel() {
    packages
    venv=$BUILD/mpi/$1-wheel
    mkdir -p "$BUILD/mpi"
    if ! [ -x "$venv/bin/mpicc" ]; then
        python3 -m venv "$venv" >"$venv.log" 2>&1 || skip "python3 -m venv: $(tail -n 1 "$venv.log")"
        "$venv/bin/pip" install --disable-pip-version-check "$2$3" >>"$venv.log" 2>&1 ||
            skip "pip install $2: $(tail -n 1 "$venv.log")"
    fi
    commands=$(realpath "$venv")/bin
}

count=0 failed=0
result() { # result STATUS NAME FILE: one TAP line; FILE is shown when it is a failure
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        echo "not ok $count - $2"
        tail -n 100 "$3" | sed 's/^/# /'
        failed=1
    fi
}

# check_with NAME MPICC MPIRUN
check_with() {
    at=$BUILD/mpi/$1
    mkdir -p "$at"
    export MPICC="$2" MPIRUN="$3" CUDA=0 # for the tests that call make, too
    echo "1..2"
    "$MPIRUN" --version 2>&1 | sed 's/^/# /' | head -n 3
    nice make -j"$(nproc)" BUILD="$at" all tests >"$at/make.log" 2>&1
    result $? "it builds" "$at/make.log"
    [ $failed -eq 0 ] || exit 1
    tests/run.sh "$at" all >"$at/check.log" 2>&1
    status=$?
    grep -E 'skipped:|# SKIP' "$at/check.log" | sed 's/^/# /'
    sed -n '/^Test Summary Report/,$p' "$at/check.log" >"$at/failures.log"
    result $status "the tests of make check pass: $(grep '^Files=' "$at/check.log" | cut -d , -f 1,2)" "$at/failures.log"
    exit $failed
}
