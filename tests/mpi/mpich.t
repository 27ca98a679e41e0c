#!/bin/sh
# TEST full=mpich timeout=7200
# MPICH 4 from Debian and Ubuntu, installed in addition to Open MPI.
. tests/mpi/others.sh
installed
mpicc=$(command -v mpicc.mpich) && mpirun=$(command -v mpirun.mpich) ||
    skip_all "mpicc.mpich and mpirun.mpich not found (Debian's libmpich-dev and mpich)"
check_with mpich "$mpicc" "$mpirun"
