/* Making a communicator, and ending it. */
#ifndef TRINE_COMM_GROUP_MAKE_H
#define TRINE_COMM_GROUP_MAKE_H

#include "comm/group/group.h"

/* A communicator over members (n, ascending world ranks, this rank among them). `state` is
 * the MPI communicator that mpi_split or mpi_duplicate made, NULL for a group of one; the
 * communicator owns it from here on, also when this fails. Not collective. */
trine_status group_create(trine_comm **comm, trine_world *world, trine_group group,
                          const int *members, int n, void *state);
void group_destroy(trine_comm **comm);

#endif
