/* The table of a transport. It moves bytes; it knows neither types nor additions. Two shapes of movement:
 * whole operations (broadcast, gather, ...), and posted messages, of which any number to and from
 * distinct peers are made and then flushed together; the ordered reductions are written once, over
 * posts (reduce/rank_order.h). A transport that can do better puts its own reduction into the table.
 *
 * Which tables a group's bytes pass, one over the other, stack.c says.
 * Invariant: api/calls.c has checked every argument; a transport is called with legal ones, on all
 * ranks of the group alike. Between two flushes a peer is posted to at most once and from at most once.
 * Cost: one indirect call. Nothing here allocates after creation, but for MPI's own requests and
 * the datatypes of messages above the message limit. */
#ifndef TRINE_COMM_TRANSPORT_TRANSPORT_H
#define TRINE_COMM_TRANSPORT_TRANSPORT_H

#include "comm/api/comm.h"

/* The functions, for whoever declares, wraps or lists them all: name, arguments with their types, their
 * names. All return a trine_status.
 *
 * Those that move or add what lies in a buffer. part: bytes that one rank holds of the whole. What ends in
 * _start returns at once; the request is for wait, its last fields are the transport's. A wait for a
 * receive checks its `bytes`. */
#define TRANSPORT_MOVES(X)                                                                         \
    X(broadcast, (trine_comm *comm, void *buf, size_t bytes, int root), (comm, buf, bytes, root))  \
    X(scatter, (trine_comm *comm, void *dst, const void *src, size_t part, int root),              \
      (comm, dst, src, part, root))                                                                \
    X(gather, (trine_comm *comm, void *dst, const void *src, size_t part, int root),               \
      (comm, dst, src, part, root))                                                                \
    X(all_to_all, (trine_comm *comm, void *dst, const void *src, size_t part),                     \
      (comm, dst, src, part))                                                                      \
    X(all_reduce,                                                                                  \
      (trine_comm *comm, void *dst, const void *src, size_t count, trine_dtype type,               \
       trine_reduction op),                                                                        \
      (comm, dst, src, count, type, op))                                                           \
    X(reduce,                                                                                      \
      (trine_comm *comm, void *dst, const void *src, size_t count, trine_dtype type,               \
       trine_reduction op, int root),                                                              \
      (comm, dst, src, count, type, op, root))                                                     \
    X(reduce_scatter,                                                                              \
      (trine_comm *comm, void *dst, const void *src, size_t count, trine_dtype type,               \
       trine_reduction op),                                                                        \
      (comm, dst, src, count, type, op))                                                           \
    X(all_gather_start,                                                                            \
      (trine_comm *comm, void *dst, const void *src, size_t part, comm_request *request),          \
      (comm, dst, src, part, request))                                                             \
    X(send_start,                                                                                  \
      (trine_comm *comm, const void *buf, size_t bytes, int peer, comm_request *request),          \
      (comm, buf, bytes, peer, request))                                                           \
    X(recv_start, (trine_comm *comm, void *buf, size_t bytes, int peer, comm_request *request),    \
      (comm, buf, bytes, peer, request))                                                           \
    X(wait, (trine_comm *comm, comm_request *request), (comm, request))                            \
    X(wait_received, (trine_comm *comm, comm_request *request, size_t bytes),                      \
      (comm, request, bytes))

/* All that api/calls.c calls. */
#define TRANSPORT_CALLS(X)                                                                         \
    TRANSPORT_MOVES(X)                                                                             \
    X(barrier, (trine_comm *comm), (comm))

/* Posted messages; NULL in a transport that has no peers. Messages of 0 bytes are not sent. */
#define TRANSPORT_POSTS(X)                                                                         \
    X(post_send, (trine_comm *comm, const void *buf, size_t bytes, int peer),                      \
      (comm, buf, bytes, peer))                                                                    \
    X(post_recv, (trine_comm *comm, void *buf, size_t bytes, int peer), (comm, buf, bytes, peer))  \
    X(flush, (trine_comm *comm), (comm))

typedef struct {
    const char *name;
#define TRANSPORT_MEMBER(function, takes, names) trine_status (*function) takes;
    TRANSPORT_CALLS(TRANSPORT_MEMBER)
    TRANSPORT_POSTS(TRANSPORT_MEMBER)
#undef TRANSPORT_MEMBER
    void (*destroy)(trine_comm *comm);
} comm_transport;

#endif
