/* The function table of a transport. It moves bytes; it knows neither types nor additions. Two kinds of movement:
 * whole operations (broadcast, gather, ...), and posted messages, any number of which to and from distinct peers
 * are posted and then flushed together. The ordered reductions are written once, over posted messages
 * (reduce/rank_order.h). A transport with a better algorithm puts its own reduction into the table.
 *
 * stack.c selects the tables of a group.
 * Invariant: api/calls.c has checked every argument, and has added the call to the group's chain (watch/match.h): a
 * transport compares the chains before it uses another rank's data, because a program may make different calls on
 * different ranks. Calls of no elements are barriers. Between two flushes at most one message is posted to each peer
 * and at most one from each peer. Cost: one indirect call. Nothing here allocates after creation, except MPI's own
 * requests and the datatypes of messages above the message limit. */
#ifndef TRINE_COMM_TRANSPORT_TRANSPORT_H
#define TRINE_COMM_TRANSPORT_TRANSPORT_H

#include "comm/api/comm.h"

/* The functions as a list, to declare, wrap or enumerate them: name, parameters with types, arguments. All return a
 * trine_status.
 *
 * These move or reduce buffers. part: bytes of one rank. A function that ends in _start returns immediately; the
 * request is for wait, its last fields belong to the transport. The wait for a receive checks its `bytes`. */
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
    X(all_reduce_start,                                                                            \
      (trine_comm *comm, void *dst, const void *src, size_t count, trine_dtype type,               \
       trine_reduction op, comm_request *request),                                                 \
      (comm, dst, src, count, type, op, request))                                                  \
    X(reduce_scatter_start,                                                                        \
      (trine_comm *comm, void *dst, const void *src, size_t count, trine_dtype type,               \
       trine_reduction op, comm_request *request),                                                 \
      (comm, dst, src, count, type, op, request))                                                  \
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

/* All functions that api/calls.c calls. progress moves started calls of all groups. */
#define TRANSPORT_CALLS(X)                                                                         \
    TRANSPORT_MOVES(X)                                                                             \
    X(barrier, (trine_comm *comm), (comm))                                                         \
    X(progress, (trine_comm *comm), (comm))

/* Posted messages; NULL in a transport without peers. Messages of 0 bytes are not sent. */
#define TRANSPORT_POSTS(X)                                                                         \
    X(post_send, (trine_comm *comm, const void *buf, size_t bytes, int peer),                      \
      (comm, buf, bytes, peer))                                                                    \
    X(post_recv, (trine_comm *comm, void *buf, size_t bytes, int peer), (comm, buf, bytes, peer))  \
    X(flush, (trine_comm *comm), (comm))

typedef struct {
    const char *name;
    comm_order order; /* of its sums; stack.c refuses a table that does not state it */
#define TRANSPORT_MEMBER(function, takes, names) trine_status (*function) takes;
    TRANSPORT_CALLS(TRANSPORT_MEMBER)
    TRANSPORT_POSTS(TRANSPORT_MEMBER)
#undef TRANSPORT_MEMBER
    void (*destroy)(trine_comm *comm);
} comm_transport;

#endif
