#include "comm/transport/timed.h"
#include "comm/transport/mpi/started.h"
#include "base/clock.h"
#include "base/status.h"

/* ---- Timed functions ------------------------------------------------------------------------- */

typedef struct {
    bool outermost;
    trine_tally_kind kind;
    uint64_t since;
} visit;

static const comm_transport *inner_of(const trine_comm *comm) {
    return comm->clock->inner[comm->group];
}

/* calls.c has recorded the user's call, whichever of the transport's functions serves it. */
static visit enter(trine_comm *comm) {
    comm_clock *c = comm->clock;
    if (c->inside) return (visit){0};
    c->inside = true;
    visit v = {true, comm->world->noted, clock_ns()};
    if (c->left) c->overlap.hidden_ns += v.since - c->left;
    return v;
}

static trine_status leave(trine_comm *comm, const visit *v, trine_status status) {
    comm_clock *c = comm->clock;
    if (!v->outermost) return status;
    uint64_t now = clock_ns(), ns = now - v->since;
    c->inside = false;
    c->left = started_first(comm->world) ? now : 0;
    c->times[comm->group][v->kind].ns += ns;
    c->ns += ns;
    return status;
}

#define TIMED(function, takes, names)                                                              \
    static trine_status timed_##function takes {                                                   \
        visit v = enter(comm);                                                                     \
        return leave(comm, &v, inner_of(comm)->function names);                                    \
    }

TRANSPORT_CALLS(TIMED)

static trine_status timed_any_wait(trine_comm *comm, comm_request *request) {
    uint64_t before = comm->clock->ns;
    bool reduces =
        request->kind == TRINE_TALLY_ALL_REDUCE || request->kind == TRINE_TALLY_REDUCE_SCATTER;
    TRY(timed_wait(comm, request));
    if (reduces) comm->clock->overlap.waited_ns += comm->clock->ns - before;
    return TRINE_OK;
}

/* Functions that are not called from outside (posts, a transport's own additions) stay untimed. */
const comm_transport *clock_over(const trine_comm *comm, const comm_transport *inner) {
    comm_clock *c = comm->clock;
    comm_transport *t = &c->timed[comm->group];
    c->inner[comm->group] = inner;
    *t = *inner;
#define SET(function, takes, names) t->function = timed_##function;
    TRANSPORT_CALLS(SET)
#undef SET
    t->wait = timed_any_wait;
    return t;
}
