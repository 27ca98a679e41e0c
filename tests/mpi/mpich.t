#!/bin/sh
# TEST full=mpich timeout=7200
# MPICH 4, as Debian and Ubuntu have it beside Open MPI.
. tests/mpi/others.sh
packages
mpicc=$(command -v mpicc.mpich) && mpirun=$(command -v mpirun.mpich) ||
    skip_all "no mpicc.mpich and mpirun.mpich here (Debian's libmpich-dev and mpich)"
check_with mpich "$mpicc" "$mpirun"
