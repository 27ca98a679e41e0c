#!/bin/sh
# TEST full=mpich5 timeout=3600
# MPICH 5 from pip.
. tests/mpi/others.sh
wheel mpich5 mpich '>=5,<6'
check_with mpich5 "$commands/mpicc" "$commands/mpirun"
