/* The MPI transport, for files that do not include <mpi.h>. */
#ifndef TRINE_COMM_TRANSPORT_MPI_MPI_H
#define TRINE_COMM_TRANSPORT_MPI_MPI_H

#include "comm/group/group.h"

extern const comm_transport mpi_transport;

/* The state of a group with this `color` (< 0: none, *state is NULL), ordered by world rank. Collective over:
 * world. */
trine_status mpi_split(trine_world *world, int color, int place, void **state);
/* Of the table, in posted.c: collectives that consist of posted messages. A broadcast follows a binomial tree; in
 * groups of up to MPI_FLAT_SIZE the root sends to all. */
#define MPI_FLAT_SIZE 4
trine_status mpi_broadcast_tree(trine_comm *comm, void *buf, size_t bytes, int root);
trine_status mpi_scatter(trine_comm *comm, void *dst, const void *src, size_t part, int root);
trine_status mpi_gather(trine_comm *comm, void *dst, const void *src, size_t part, int root);
trine_status mpi_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part);
/* Whether the request is complete; if so it needs no wait. */
trine_status mpi_test(trine_comm *comm, comm_request *request, bool *done);
/* A message matches only one of the same kind. */
typedef enum {
    TAG_MESSAGE, TAG_POSTED, TAG_SEGMENT, TAG_GPU, TAG_STARTED, TAG_GATHER, TAG_OFFER
} mpi_tag_kind;
/* As the table's send_start and recv_start, whose kind is TAG_MESSAGE, for the segments of a transport's own
 * algorithm (TAG_SEGMENT, TAG_OFFER), or for buffers in GPU memory, which requires a CUDA-aware MPI (TAG_GPU).
 * Completed by mpi_transport.wait. Not collective. */
trine_status mpi_send_as(trine_comm *comm, const void *buf, size_t bytes, int peer, mpi_tag_kind kind,
                         comm_request *request);
trine_status mpi_recv_as(trine_comm *comm, void *buf, size_t bytes, int peer, mpi_tag_kind kind,
                         comm_request *request);
/* Post the messages of a started reduction (started.h), which match no others; *arrived: all that were posted
 * are complete. Messages of 0 bytes are not sent. Not collective. */
trine_status mpi_started_send(const comm_request *r, const void *buf, size_t bytes, int peer);
trine_status mpi_started_recv(const comm_request *r, void *buf, size_t bytes, int peer);
trine_status mpi_started_arrived(trine_comm *comm, bool *arrived);
/* Nothing more arrives in the buffers of the posted messages. */
void mpi_started_cancel(trine_comm *comm);
/* Whether MPI says that it is CUDA-aware: it sends from and receives in GPU memory. */
bool mpi_reaches_gpus(void);
/* The lowest world rank on this rank's node. Collective over: world. */
trine_status mpi_node_leader(trine_world *world, int *leader);
void mpi_free(void **state);
/* Frees a group's state. A group in which a difference was found (watch/match.h) keeps its communicator until
 * MPI_Finalize: messages that nobody receives may be in it, and MPICH 5 ends the process in MPI_Comm_free over a
 * large one (comm/match under PART=mpich5). */
void mpi_leave(trine_comm *comm);

#endif
