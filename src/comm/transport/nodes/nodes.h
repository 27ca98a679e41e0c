/* Groups that span nodes ("shm+mpi"): inside a node the members read each other's memory (shm.h),
 * between nodes travel messages, and each byte crosses as seldom as the order of additions allows.
 * A node's members must be consecutive in the group; then ((r0 + r1) + r2) + ... is a chain: the
 * first node adds what its members have and sends the partial sum to the second, which goes on from
 * there. The last node has the result and it travels back.
 *
 * Lanes: member l of every node works on the l-th slice of the data, for as many l as the smallest
 * node has members, so that all processors add and all links carry. Each lane goes through its
 * slice in chunks, of which several are on the way at once. Invariant: what is sent, and in which
 * pieces, follows from the arguments alone; only how a node's members reach each other's buffers
 * (where they lie, or through the staging memory) is agreed on, and inside the node. A wait depends
 * on no more than the peers having started the same call. Nothing is allocated after creation: the
 * chunks lie in the world's scratch.
 * Cost between K nodes, for a vector of V bytes of P members: all-reduce 2 (K-1) V, reduce-scatter
 * (K-1) V and what the last node does not keep, all-gather (K-1) V; the plain exchange costs about
 * as many times more as a node has members. Of 16-bit numbers the sums on their way to the last node
 * are fp32: all-reduce 3 (K-1) V, reduce-scatter 2 (K-1) V and what the last node does not keep.
 * Where a chain sends no less than the plain exchange, that is made. */
#ifndef TRINE_COMM_TRANSPORT_NODES_NODES_H
#define TRINE_COMM_TRANSPORT_NODES_NODES_H

#include "comm/transport/shm/shm.h"

#define NODES_CHUNK    ((size_t)64 * 1024) /* bytes of a lane that travel together */
#define NODES_PARTIALS 3                   /* arriving, being added, leaving */
/* Chunks whose result is on its way: a chain of K nodes is busy throughout with 2 (K-1). */
#define NODES_LAG 8

/* Which reductions the chain makes, because it sends less than a plain exchange would. */
typedef struct {
    bool all_reduces, scatters;
} nodes_use;

typedef struct nodes_state {
    comm_transport table;
    trine_comm *local; /* the group's members on this node, for shm's counters; NULL: this rank alone */
    int nodes, own;    /* how many there are, and which is this rank's */
    int *first;        /* (nodes + 1) each node's first member; at the end P */
    int lanes;         /* members of the smallest node */
    nodes_use use[2];  /* of numbers that are handed on as they are; that widen (ordered.h) */
    comm_request partial_in[NODES_PARTIALS], partial_out[NODES_PARTIALS];
    comm_request result_in[NODES_LAG], result_out[NODES_LAG];
} nodes_state;

/* Whether the group is one for this transport: several nodes, of which one at least has two members
 * or more, and on every node consecutive ones. `shares` (world size) says which ranks share memory:
 * those with equal values. Pure. */
bool nodes_fit(const trine_comm *comm, const int *shares);
/* Gives `comm`, which fits, what the transport needs. `node` may be NULL when this rank is the group's only
 * one there. Errors: TRINE_ENOMEM. */
trine_status nodes_attach(trine_comm *comm, shm_node *node, const int *shares);

/* reduce.c */
trine_status nodes_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type, trine_reduction op);
trine_status nodes_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                  trine_dtype type, trine_reduction op);

/* Members that a node has. */
static inline int nodes_size(const nodes_state *n, int node) {
    return n->first[node + 1] - n->first[node];
}

/* The local part's counters; NULL for a rank alone. */
static inline shm_state *nodes_shm(const nodes_state *n) {
    return n->local ? n->local->shm : NULL;
}

#endif
