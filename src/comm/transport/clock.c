/* Time in the transport, by group and kind. While the clock runs, each group of several ranks has a
 * table of its own that times the transport's functions and calls them; a group that nobody times
 * has its transport's. What a timed function does on its way (an exchange inside a reduction) is
 * part of it and not counted again. */
#include "comm/transport/transport.h"
#include "base/clock.h"
#include "base/status.h"

#include <stdlib.h>

struct comm_clock {
    const trine_mesh *mesh;
    bool running, inside;
    const comm_transport *inner[TRINE_GROUPS]; /* NULL: the group is not timed */
    comm_transport timed[TRINE_GROUPS];
    trine_tally before[TRINE_GROUPS][TRINE_TALLY_KINDS];
    comm_time times[TRINE_GROUPS][TRINE_TALLY_KINDS];
    uint64_t ns;
};

/* ---- Timed functions ------------------------------------------------------------------------- */

typedef struct {
    bool outermost;
    trine_tally_kind kind;
    uint64_t since;
} visit;

static const comm_transport *inner_of(const trine_comm *comm) {
    return comm->clock->inner[comm->group];
}

/* comm.c has noted the user's call, whichever of the transport's functions serves it. */
static visit enter(trine_comm *comm) {
    comm_clock *c = comm->clock;
    if (c->inside) return (visit){0};
    c->inside = true;
    return (visit){true, comm->world->noted, clock_ns()};
}

static trine_status leave(trine_comm *comm, const visit *v, trine_status status) {
    comm_clock *c = comm->clock;
    if (!v->outermost) return status;
    uint64_t ns = clock_ns() - v->since;
    c->inside = false;
    c->times[comm->group][v->kind].ns += ns;
    c->ns += ns;
    return status;
}

/* The body of a timed function; its arguments begin with comm. */
#define TIMED(function, ...)                                                                       \
    visit v = enter(comm);                                                                         \
    return leave(comm, &v, inner_of(comm)->function(__VA_ARGS__))

static trine_status timed_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    TIMED(broadcast, comm, buf, bytes, root);
}

static trine_status timed_scatter(trine_comm *comm, void *dst, const void *src, size_t part,
                                  int root) {
    TIMED(scatter, comm, dst, src, part, root);
}

static trine_status timed_gather(trine_comm *comm, void *dst, const void *src, size_t part,
                                 int root) {
    TIMED(gather, comm, dst, src, part, root);
}

static trine_status timed_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    TIMED(all_to_all, comm, dst, src, part);
}

static trine_status timed_barrier(trine_comm *comm) {
    TIMED(barrier, comm);
}

static trine_status timed_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                     trine_dtype type, trine_reduction op) {
    TIMED(all_reduce, comm, dst, src, count, type, op);
}

static trine_status timed_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                 trine_dtype type, trine_reduction op, int root) {
    TIMED(reduce, comm, dst, src, count, type, op, root);
}

static trine_status timed_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                         trine_dtype type, trine_reduction op) {
    TIMED(reduce_scatter, comm, dst, src, count, type, op);
}

static trine_status timed_all_gather_start(trine_comm *comm, void *dst, const void *src,
                                           size_t part, comm_request *request) {
    TIMED(all_gather_start, comm, dst, src, part, request);
}

static trine_status timed_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                                     comm_request *request) {
    TIMED(send_start, comm, buf, bytes, peer, request);
}

static trine_status timed_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer,
                                     comm_request *request) {
    TIMED(recv_start, comm, buf, bytes, peer, request);
}

static trine_status timed_wait(trine_comm *comm, comm_request *request) {
    TIMED(wait, comm, request);
}

static trine_status timed_wait_received(trine_comm *comm, comm_request *request, size_t bytes) {
    TIMED(wait_received, comm, request, bytes);
}

/* What has no row here (posts, what a transport adds for itself) stays the transport's own. */
static comm_transport timed_table(const comm_transport *inner) {
    comm_transport t = *inner;
    t.broadcast = timed_broadcast;
    t.scatter = timed_scatter;
    t.gather = timed_gather;
    t.all_to_all = timed_all_to_all;
    t.barrier = timed_barrier;
    t.all_reduce = timed_all_reduce;
    t.reduce = timed_reduce;
    t.reduce_scatter = timed_reduce_scatter;
    t.all_gather_start = timed_all_gather_start;
    t.send_start = timed_send_start;
    t.recv_start = timed_recv_start;
    t.wait = timed_wait;
    t.wait_received = timed_wait_received;
    return t;
}

/* ---- The clock ------------------------------------------------------------------------------- */

trine_status comm_clock_create(comm_clock **clock, const trine_mesh *mesh) {
    comm_clock *c = *clock = calloc(1, sizeof *c);
    CHECK(c, TRINE_ENOMEM, "no memory for the clock of the mesh");
    c->mesh = mesh;
    return TRINE_OK;
}

void comm_clock_destroy(comm_clock **clock) {
    if (!*clock) return;
    comm_clock_stop(*clock);
    free(*clock);
    *clock = NULL;
}

void comm_clock_start(comm_clock *c) {
    if (c->running) return;
    c->running = true;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(c->mesh, (trine_group)g);
        if (comm->size == 1) continue;
        ASSERT(comm->group == (trine_group)g && !comm->clock);
        c->inner[g] = comm->transport;
        c->timed[g] = timed_table(comm->transport);
        comm->clock = c;
        comm->transport = &c->timed[g];
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) c->before[g][k] = comm->tally[k];
    }
}

void comm_clock_stop(comm_clock *c) {
    if (!c->running) return;
    c->running = false;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(c->mesh, (trine_group)g);
        if (!c->inner[g]) continue;
        comm->clock = NULL;
        comm->transport = c->inner[g];
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) {
            c->times[g][k].calls += comm->tally[k].calls - c->before[g][k].calls;
            c->times[g][k].bytes += comm->tally[k].bytes - c->before[g][k].bytes;
        }
    }
}

comm_time comm_clock_time(const comm_clock *clock, trine_group group, trine_tally_kind kind) {
    return clock->times[group][kind];
}

uint64_t comm_clock_ns(const comm_clock *clock) {
    return clock->ns;
}
