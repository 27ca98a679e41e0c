/* Groups that span nodes ("shm+mpi"): inside a node the members read each other's memory (shm.h), between nodes
 * they send messages, and each byte crosses as seldom as the order of additions allows. A node's members must be
 * consecutive in the group; then ((r0 + r1) + r2) + ... is a chain: the first node adds its members' addends and
 * sends the partial sum to the second, which continues. The last node has the result, which travels back.
 *
 * Lanes: member l of every node works on the l-th slice of the data, for as many l as the smallest node has
 * members, so that all processors add and all links are used. Each lane processes its slice in chunks, several of
 * which are in progress at once.
 * Invariant: what is sent, and in which segments, follows from the arguments alone; only how a node's members
 * access each other's buffers (in place, or through staging memory) is agreed on, inside the node. A wait depends
 * only on the peers having started the same call. Nothing is allocated after creation: the chunks lie in the
 * world's scratch.
 * Cost: between K nodes, for a vector of V bytes of P members: all-reduce 2 (K-1) V, reduce-scatter (K-1) V and
 * what the last node does not keep, all-gather (K-1) V; a direct exchange sends about as many times more as a node
 * has members. Partial sums of 16-bit numbers are fp32: all-reduce 3 (K-1) V, reduce-scatter 2 (K-1) V and what the
 * last node does not keep. A sum onto dst sends also the dst of all nodes but the first. Where the chain does not
 * send less than a direct exchange, the exchange is used, and for sums in a tree, and of 16-bit numbers onto dst. */
#ifndef TRINE_COMM_TRANSPORT_NODES_NODES_H
#define TRINE_COMM_TRANSPORT_NODES_NODES_H

#include "comm/transport/shm/shm.h"

#define NODES_CHUNK    ((size_t)64 * 1024) /* bytes of a lane that are sent together */
#define NODES_PARTIALS 3                   /* arriving, being added, leaving */
/* Chunks whose result is in transit: 2 (K-1) keep a chain of K nodes busy. */
#define NODES_LAG 8

#define NODES_OFFERS 5 /* chunks of dst that are on their way to the first node */

/* The reductions that use the chain, because it sends less than a direct exchange. */
typedef struct {
    bool all_reduces, scatters, ontos;
} nodes_use;

typedef struct nodes_state {
    comm_transport table;
    trine_comm *local; /* the group's members on this node, for shm's counters; NULL: only this rank */
    int nodes, own;    /* number of nodes; the index of this rank's */
    int *first;        /* (nodes + 1) each node's first member; the last entry is P */
    int lanes;         /* members of the smallest node */
    nodes_use use[2];  /* for types whose partial sums keep the type; for those that widen (rank_order.h) */
    comm_request partial_in[NODES_PARTIALS], partial_out[NODES_PARTIALS];
    comm_request result_in[NODES_LAG], result_out[NODES_LAG];
    comm_request offer_out[NODES_OFFERS];
} nodes_state;

/* Whether the group can use this transport: several nodes, of which at least one has two members or more, and
 * consecutive members on every node. `shares` (world size) has equal values for ranks that share memory. Pure. */
bool nodes_fit(const trine_comm *comm, const int *shares);
/* Attaches the transport's state to `comm`, for which nodes_fit holds. `node` may be NULL if this rank is the
 * group's only one there. Errors: TRINE_ENOMEM. */
trine_status nodes_attach(trine_comm *comm, shm_node *node, const int *shares);

/* chain_reduce.c */

/* Whether the reduction uses the chain. Pure. */
bool nodes_chains(const trine_comm *comm, bool all, size_t count, trine_dtype type, trine_reduction op);
trine_status nodes_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type, trine_reduction op);
trine_status nodes_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                  trine_dtype type, trine_reduction op);

/* Number of members on a node. */
static inline int nodes_size(const nodes_state *n, int node) {
    return n->first[node + 1] - n->first[node];
}

/* The local group's counters; NULL for a rank alone on its node. */
static inline shm_state *nodes_shm(const nodes_state *n) {
    return n->local ? n->local->shm : NULL;
}

#endif
