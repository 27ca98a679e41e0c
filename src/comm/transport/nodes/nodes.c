/* The transport of groups over several nodes: which groups use it, the gather, and the table. Short
 * calls, and those that gain little from shared memory, use mpi's own functions. */
#include "comm/transport/nodes/nodes.h"
#include "comm/reduce/rank_order.h"

#include <stdlib.h>
#include <string.h>

/* ---- Gathering ------------------------------------------------------------------------------- */

/* A request that mpi.c made has state 0. */
enum { AT_MPI, COMPLETE };

/* The index of part `held` (0, 1, ...) that a local member has in its dst before the parts are
 * exchanged inside the node: its own, then those that it has received. NO_PEER after the last; the
 * first member has the most. */
static int part_held(const nodes_state *n, int local, int held) {
    int size = nodes_size(n, n->own);
    if (held-- == 0) return n->first[n->own] + local;
    for (int k = 0; k < n->nodes; k++) {
        int there = nodes_size(n, k);
        int parts = k == n->own || there <= local ? 0 : (there - local - 1) / size + 1;
        if (held < parts) return n->first[k] + local + held * size;
        held -= parts;
    }
    return NO_PEER;
}

/* Every part is sent once to each other node: to the member there with the same index in its node,
 * or that index modulo the node's size. */
static trine_status exchange_parts(trine_comm *comm, char *dst, const char *src, size_t part) {
    const nodes_state *n = comm->nodes;
    int place = comm->rank - n->first[n->own], from;
    for (int held = 1; (from = part_held(n, place, held)) != NO_PEER; held++)
        TRY(mpi_transport.post_recv(comm, dst + (size_t)from * part, part, from));
    for (int k = 1; k < n->nodes; k++) {
        int to = (n->own + k) % n->nodes;
        TRY(mpi_transport.post_send(comm, src, part, n->first[to] + place % nodes_size(n, to)));
    }
    return mpi_transport.flush(comm);
}

/* All members have arrived, with their parts in their dst. */
static void spread_direct(const nodes_state *n, uint64_t call, char *dst, size_t part) {
    const shm_state *s = nodes_shm(n);
    for (int k = 1; k < s->comm->size; k++) {
        int i = (s->comm->rank + k) % s->comm->size, m = part_held(n, i, 0);
        memcpy(dst + (size_t)m * part, shm_src_of(s, i, call, part), part);
        for (int held = 1; (m = part_held(n, i, held)) != NO_PEER; held++)
            memcpy(dst + (size_t)m * part, shm_dst_of(s, i, call) + (size_t)m * part, part);
    }
}

static trine_status spread_staged(const nodes_state *n, char *dst, size_t part) {
    shm_state *s = nodes_shm(n);
    uint64_t segment = 0;
    for (int held = 0; part_held(n, 0, held) != NO_PEER; held++)
        for (size_t at = 0; at < part; at += SHM_STAGE, segment++) {
            size_t bytes = part - at < SHM_STAGE ? part - at : SHM_STAGE;
            int own = part_held(n, s->comm->rank, held);
            if (own != NO_PEER)
                memcpy(shm_stage(s, s->comm->rank, segment), dst + (size_t)own * part + at, bytes);
            TRY(shm_meet(s));
            for (int i = 0; i < s->comm->size; i++) {
                int m = part_held(n, i, held);
                if (m == NO_PEER || i == s->comm->rank) continue;
                memcpy(dst + (size_t)m * part + at, shm_stage(s, i, segment), bytes);
            }
        }
    return TRINE_OK;
}

static trine_status gather_parts(trine_comm *comm, char *dst, const char *src, size_t part) {
    shm_state *s = nodes_shm(comm->nodes);
    char *own = dst + (size_t)comm->rank * part;
    uint64_t call;
    if (own != src) memcpy(own, src, part);
    TRY(exchange_parts(comm, dst, src, part));
    if (!s) return TRINE_OK;
    TRY(shm_open_call(s, src, part, dst, part * (size_t)comm->size, &call));
    if (shm_reachable(s, call))
        spread_direct(comm->nodes, call, dst, part);
    else
        TRY(spread_staged(comm->nodes, dst, part));
    return shm_close_call(s, call, SHM_FORM_DIRECT);
}

/* A long gather does all its work in the start, and nothing in the wait: a caller may not rely on a
 * gather that progresses by itself (--serial waits for each at once, on every rank alike). */
static trine_status nodes_all_gather_start(trine_comm *comm, void *dst, const void *src,
                                           size_t part, comm_request *request) {
    if (rank_order_is_small(part, comm->size))
        return mpi_transport.all_gather_start(comm, dst, src, part, request);
    request->state = COMPLETE;
    return gather_parts(comm, dst, src, part);
}

/* So does a reduction along the chain. One that sends to each rank directly is mpi's, and moves: a tree's always, for
 * which a chain of partial sums has the wrong order. */
static trine_status nodes_reduction_start(trine_comm *comm, void *dst, const void *src,
                                          size_t count, trine_dtype type, trine_reduction op,
                                          comm_request *request) {
    bool all = request->kind == TRINE_TALLY_ALL_REDUCE;
    if (!nodes_chains(comm, all, count, type, op))
        return (all ? mpi_transport.all_reduce_start
                    : mpi_transport.reduce_scatter_start)(comm, dst, src, count, type, op, request);
    request->state = COMPLETE;
    return (all ? nodes_all_reduce : nodes_reduce_scatter)(comm, dst, src, count, type, op);
}

static trine_status nodes_wait(trine_comm *comm, comm_request *request) {
    return request->state == COMPLETE ? TRINE_OK : mpi_transport.wait(comm, request);
}

/* ---- Selecting groups ------------------------------------------------------------------------ */

static bool starts_node(const trine_comm *comm, const int *shares, int i) {
    return i == 0 || shares[comm->members[i]] != shares[comm->members[i - 1]];
}

bool nodes_fit(const trine_comm *comm, const int *shares) {
    int nodes = 0;
    for (int i = 0; i < comm->size; i++) {
        if (!starts_node(comm, shares, i)) continue;
        nodes++;
        for (int j = 0; j < i; j++)
            if (shares[comm->members[j]] == shares[comm->members[i]]) return false;
    }
    return nodes > 1 && nodes < comm->size;
}

/* `carried`: bytes of a partial sum for each byte of its addends. In units of a P-th of the vector;
 * see nodes.h. */
static nodes_use use_of(const nodes_state *n, int64_t carried) {
    int64_t size = n->first[n->nodes], plain = 0, there = carried * (n->nodes - 1) * size;
    for (int k = 0; k < n->nodes; k++) plain += nodes_size(n, k) * (size - nodes_size(n, k));
    int64_t scattered = there + size - nodes_size(n, n->nodes - 1);
    return (nodes_use){.all_reduces = there + (n->nodes - 1) * size < 2 * plain,
                       .scatters = scattered < plain,
                       .ontos = carried == 1 && scattered + size - nodes_size(n, 0) < plain};
}

/* ---- Construction ---------------------------------------------------------------------------- */

static trine_status find_nodes(nodes_state *n, const trine_comm *comm, const int *shares) {
    n->first = calloc((size_t)comm->size + 1, sizeof *n->first);
    CHECK(n->first, TRINE_ENOMEM, "no memory for the nodes of group %s",
          comm_group_name(comm->group));
    for (int i = 0; i < comm->size; i++) {
        if (starts_node(comm, shares, i)) n->first[n->nodes++] = i;
        if (i == comm->rank) n->own = n->nodes - 1;
    }
    n->first[n->nodes] = comm->size;
    n->lanes = comm->size;
    for (int k = 0; k < n->nodes; k++)
        if (nodes_size(n, k) < n->lanes) n->lanes = nodes_size(n, k);
    for (int widens = 0; widens < 2; widens++) n->use[widens] = use_of(n, 1 + widens);
    return TRINE_OK;
}

/* This node's members as a group that only has shared memory. */
static trine_status make_local(nodes_state *n, const trine_comm *comm, shm_node *node) {
    int first = n->first[n->own], size = nodes_size(n, n->own);
    trine_comm *c = n->local = calloc(1, sizeof *c);
    CHECK(c, TRINE_ENOMEM, "no memory for the node's part of group %s",
          comm_group_name(comm->group));
    c->world = comm->world;
    c->group = comm->group;
    c->trail = comm->trail;
    c->rank = comm->rank - first;
    c->size = size;
    c->members = calloc((size_t)size, sizeof *c->members);
    CHECK(c->members, TRINE_ENOMEM, "no memory for the node's part of group %s of %d",
          comm_group_name(comm->group), size);
    memcpy(c->members, comm->members + first, (size_t)size * sizeof *c->members);
    return shm_attach(c, node);
}

static void nodes_destroy(trine_comm *comm) {
    trine_comm *local = comm->nodes->local;
    if (local) {
        shm_detach(local);
        free(local->members);
        free(local);
    }
    free(comm->nodes->first);
    free(comm->nodes);
    mpi_leave(comm);
}

/* mpi's table, except for the calls that shared memory makes cheaper. */
static comm_transport make_table(void) {
    comm_transport t = mpi_transport;
    t.name = "shm+mpi";
    t.order = COMM_ORDER_RANKS; /* a chain over nodes, whose members are consecutive (nodes.h) */
    t.all_reduce = nodes_all_reduce;
    t.reduce_scatter = nodes_reduce_scatter;
    t.all_reduce_start = nodes_reduction_start;
    t.reduce_scatter_start = nodes_reduction_start;
    t.all_gather_start = nodes_all_gather_start;
    t.wait = nodes_wait;
    t.destroy = nodes_destroy;
    return t;
}

trine_status nodes_attach(trine_comm *comm, shm_node *node, const int *shares) {
    nodes_state *n = comm->nodes = calloc(1, sizeof *n);
    CHECK(n, TRINE_ENOMEM, "no memory for group %s", comm_group_name(comm->group));
    n->table = make_table();
    ASSERT(comm_scratch_bytes(comm->world->size) >=
           (NODES_PARTIALS + NODES_LAG + NODES_OFFERS) * NODES_CHUNK);
    TRY(find_nodes(n, comm, shares));
    return nodes_size(n, n->own) > 1 ? make_local(n, comm, node) : TRINE_OK;
}
