/* Creates and destroys a communicator. */
#ifndef TRINE_COMM_MESH_MAKE_H
#define TRINE_COMM_MESH_MAKE_H

#include "comm/group/group.h"

/* A communicator over members (n, ascending world ranks, this rank among them). `state` is the MPI communicator
 * from mpi_split or mpi_duplicate (try_mpi.h), NULL for a group of one; the communicator takes ownership, also on
 * failure. Not collective. */
trine_status group_create(trine_comm **comm, trine_world *world, trine_group group,
                          const int *members, int n, void *state);
void group_destroy(trine_comm **comm);

#endif
