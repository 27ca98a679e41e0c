/* Movement over MPI, for files that do without <mpi.h>. */
#ifndef TRINE_COMM_TRANSPORT_MPI_MPI_H
#define TRINE_COMM_TRANSPORT_MPI_MPI_H

#include "comm/group/group.h"

extern const comm_transport mpi_transport;

/* The state for a group that shares `color` (< 0: for none, *state is NULL), ordered by world rank.
 * Collective over: world. */
trine_status mpi_split(trine_world *world, int color, void **state);
/* The state for a new communicator over all of MPI's ranks. Collective over: world. */
trine_status mpi_duplicate(void **state);
/* Whether the request is done; if so it needs no wait any more. */
trine_status mpi_test(trine_comm *comm, comm_request *request, bool *done);
/* As the table's send_start and recv_start, for the pieces of a transport's own algorithm: they
 * never meet a message of the user's. mpi_transport.wait ends them. Not collective. */
trine_status mpi_piece_send(trine_comm *comm, const void *buf, size_t bytes, int peer,
                            comm_request *request);
trine_status mpi_piece_recv(trine_comm *comm, void *buf, size_t bytes, int peer,
                            comm_request *request);
/* The same for buffers in a GPU's memory, which MPI must be able to reach; they meet neither. */
trine_status mpi_gpu_send(trine_comm *comm, const void *buf, size_t bytes, int peer,
                          comm_request *request);
trine_status mpi_gpu_recv(trine_comm *comm, void *buf, size_t bytes, int peer,
                          comm_request *request);
/* Whether MPI says that it is CUDA-aware: it sends from GPUs' memory and receives there. */
bool mpi_reaches_gpus(void);
/* The lowest world rank on this rank's node. Collective over: world. */
trine_status mpi_node_leader(trine_world *world, int *leader);
void mpi_free(void **state);

#endif
