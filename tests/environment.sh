# shellcheck shell=sh
# What every run of a test has set; sourced by tests/run.sh, tools/mutants.sh and tools/coverage.sh.

# Waiting threads sleep instead of spinning. On a busy machine they would spin for the full time slice of the
# thread that they wait for: bench/run took 11 s of CPU time at a load of 12, and takes 1 s.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
# Ranks that wait in MPI give their core away. By itself Open MPI does so only where a job has more ranks than cores:
# two ranks on two cores spin, whatever else runs. On a busy machine a case of zero/bytes took 4.9 s of CPU time and
# takes 0.9.
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
# UCX, which Debian's MPICH uses, intercepts mmap, as zero/allocation does.
export UCX_MEM_MMAP_HOOK_MODE=none
# What a start of ranks spends on what no test uses: hwloc reads the PCI devices of the machine for Open MPI and loads
# plugins for GPUs and X11, PMIx writes a store into files of the session's folder, and Open MPI loads the transports of
# networks that no machine of a test has. Two ranks took 0.16 s of processor time, and take 0.08.
export HWLOC_COMPONENTS="${HWLOC_COMPONENTS:--linuxio,-pci}" HWLOC_PLUGINS_PATH="${HWLOC_PLUGINS_PATH:-/nonexistent}"
export PMIX_MCA_gds="${PMIX_MCA_gds:-hash}" OMPI_MCA_pml="${OMPI_MCA_pml:-ob1}"
