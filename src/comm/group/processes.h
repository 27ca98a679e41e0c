/* All processes of the job: the one place that names them (tools/layers.awk holds the sources to it). A world of a
 * caller's communicator (trine_mpi.h) uses only that one's duplicate; this is for trine_world_create, and for the end
 * of a job in which no world could be made. */
#ifndef TRINE_COMM_GROUP_PROCESSES_H
#define TRINE_COMM_GROUP_PROCESSES_H

#include <mpi.h>

static inline MPI_Comm job_processes(void) {
    return MPI_COMM_WORLD;
}

#endif
