/* The steps of a started reduction are those of reduce/rank_order.c: an exchange of addends a chunk at a
 * time, each followed by additions, then for an all-reduce a gather of the slices; a small
 * all-reduce exchanges all addends at once. */
#include "comm/transport/mpi/started.h"
#include "comm/reduce/rank_order.h"
#include "comm/transport/mpi/mpi.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

typedef enum { IDLE, WHOLE, SLICES, GATHERING } step_kind;

/* The list, and the reduction whose messages are posted. */
struct started_reduction {
    comm_request *first, *last;
    comm_request *moving; /* NULL: none */
    step_kind step;
    size_t slice, at, chunk; /* elements */
};

/* ---- The list -------------------------------------------------------------------------------- */

trine_status started_create(trine_world *world) {
    world->started = calloc(1, sizeof *world->started);
    CHECK(world->started, TRINE_ENOMEM, "no memory for the list of started reductions");
    return started_size(world, 1);
}

void started_destroy(trine_world *world) {
    free(world->arrivals);
    world->arrivals = NULL;
    free(world->started);
    world->started = NULL;
}

trine_status started_size(trine_world *world, int group_size) {
    size_t bytes = comm_arrival_bytes(world->size, group_size);
    ASSERT(!world->started->first);
    if (bytes == world->arrival_bytes) return TRINE_OK;
    free(world->arrivals);
    world->arrival_bytes = 0;
    world->arrivals = aligned_alloc(ARENA_ALIGN, bytes);
    CHECK(world->arrivals, TRINE_ENOMEM,
          "no memory for reductions in groups of %d ranks (%zu bytes of scratch)", group_size,
          bytes);
    world->arrival_bytes = bytes;
    return TRINE_OK;
}

void started_add(comm_request *r, void *dst, const void *src, int mover) {
    struct started_reduction *s = r->comm->world->started;
    r->dst = dst;
    r->src = src;
    r->mover = mover;
    r->next_started = NULL;
    if (s->last)
        s->last->next_started = r;
    else
        s->first = r;
    s->last = r;
}

void started_remove(comm_request *r) {
    struct started_reduction *s = r->comm->world->started;
    comm_request *before = NULL, *at = s->first;
    while (at != r) before = at, at = at->next_started;
    if (before)
        before->next_started = r->next_started;
    else
        s->first = r->next_started;
    if (s->last == r) s->last = before;
    r->mover = STARTED_DONE;
}

comm_request *started_first(const trine_world *world) {
    return world->started->first;
}

/* ---- One reduction --------------------------------------------------------------------------- */

static size_t element_of(const comm_request *r) {
    return trine_dtype_bytes(r->type);
}

/* This rank's slice of src. */
static const char *own_addend(const struct started_reduction *s, const comm_request *r) {
    return (const char *)r->src + ((size_t)r->comm->rank * s->slice + s->at) * element_of(r);
}

static bool scatters(const comm_request *r) {
    return r->kind == TRINE_TALLY_REDUCE_SCATTER;
}

/* Posts to and from every peer: what `to` gets of src, and where what `from` sends arrives. */
static trine_status post_addends(struct started_reduction *s, const comm_request *r) {
    trine_comm *comm = r->comm;
    size_t element = element_of(r), limit = s->chunk;
    bool whole = s->step == WHOLE;
    size_t own =
        whole ? r->count : rank_order_segment(r->count, s->slice, comm->rank, s->at, limit);
    for (int k = 1; k < comm->size; k++) {
        int to = (comm->rank + k) % comm->size;
        int from = (comm->rank - k + comm->size) % comm->size;
        size_t theirs = whole ? r->count : rank_order_segment(r->count, s->slice, to, s->at, limit);
        size_t begin = whole || !theirs ? 0 : (size_t)to * s->slice + s->at;
        char *arrival = comm->world->arrivals + (size_t)from * limit * element;
        TRY(mpi_started_recv(r, arrival, own * element, from));
        TRY(mpi_started_send(r, (const char *)r->src + begin * element, theirs * element, to));
    }
    return TRINE_OK;
}

static trine_status post_slices(struct started_reduction *s, const comm_request *r) {
    trine_comm *comm = r->comm;
    size_t element = element_of(r), own = rank_order_slice(r->count, comm->size, comm->rank);
    char *buf = r->dst;
    for (int k = 1; k < comm->size; k++) {
        int to = (comm->rank + k) % comm->size;
        int from = (comm->rank - k + comm->size) % comm->size;
        size_t theirs = rank_order_slice(r->count, comm->size, from);
        char *arrival = theirs ? buf + (size_t)from * s->slice * element : buf;
        char *mine = own ? buf + (size_t)comm->rank * s->slice * element : buf;
        TRY(mpi_started_recv(r, arrival, theirs * element, from));
        TRY(mpi_started_send(r, mine, own * element, to));
    }
    return TRINE_OK;
}

static trine_status open_reduction(struct started_reduction *s, comm_request *r) {
    trine_comm *comm = r->comm;
    size_t element = element_of(r), size = (size_t)comm->size;
    s->moving = r;
    s->at = 0;
    s->slice = rank_order_slice_size(r->count, comm->size);
    s->step = !scatters(r) && rank_order_is_small(r->count * element, comm->size) ? WHOLE : SLICES;
    s->chunk = s->step == WHOLE ? r->count : comm->world->arrival_bytes / size / element;
    comm->world->mpi_pending++;
    return r->count ? post_addends(s, r) : TRINE_OK;
}

/* Adds what has arrived. */
static void add(const struct started_reduction *s, const comm_request *r) {
    trine_comm *comm = r->comm;
    size_t element = element_of(r), n = r->count;
    const char *own = r->src;
    char *dst = r->dst;
    if (s->step == SLICES) {
        n = rank_order_segment(r->count, s->slice, comm->rank, s->at, s->chunk);
        own = own_addend(s, r);
        dst += ((scatters(r) ? 0 : (size_t)comm->rank * s->slice) + s->at) * element;
    }
    if (!n) return;
    const void **addends = comm->world->addends;
    int before = r->op == COMM_SUM_ONTO;
    addends[0] = dst;
    for (int i = 0; i < comm->size; i++)
        addends[before + i] =
            i == comm->rank ? own : comm->world->arrivals + (size_t)i * s->chunk * element;
    rank_order_combine(dst, addends, before + comm->size, n, r->type, r->op);
}

/* All posted messages have arrived: adds, and posts what follows. *ended: nothing does. */
static trine_status advance(struct started_reduction *s, const comm_request *r, bool *ended) {
    *ended = true;
    if (!r->count || s->step == GATHERING) return TRINE_OK;
    add(s, r);
    if (s->step == WHOLE) return TRINE_OK;
    s->at += s->chunk;
    *ended = s->at >= s->slice && scatters(r);
    if (*ended) return TRINE_OK;
    if (s->at < s->slice) return post_addends(s, r);
    s->step = GATHERING;
    return post_slices(s, r);
}

static void close_reduction(struct started_reduction *s, comm_request *r) {
    r->comm->world->mpi_pending--;
    s->moving = NULL;
    s->step = IDLE;
    started_remove(r);
}

void started_abandon(trine_comm *comm) {
    struct started_reduction *s = comm->world->started;
    if (s->moving && s->moving->comm == comm) {
        mpi_started_cancel(comm);
        close_reduction(s, s->moving);
    }
    for (comm_request *r = s->first, *next; r; r = next) {
        next = r->next_started;
        if (r->comm == comm) started_remove(r);
    }
}

/* The oldest that messages move, unless an older one may still become one of them. */
static comm_request *next_to_move(const struct started_reduction *s) {
    comm_request *r = s->first;
    while (r && r->mover == STARTED_TRANSPORT) r = r->next_started;
    return r && r->mover == STARTED_MESSAGES ? r : NULL;
}

trine_status started_move(trine_world *world) {
    struct started_reduction *s = world->started;
    for (;;) {
        if (!s->moving) {
            comm_request *next = next_to_move(s);
            if (!next) return TRINE_OK;
            TRY(open_reduction(s, next));
        }
        comm_request *r = s->moving;
        bool arrived, ended;
        TRY(mpi_started_arrived(r->comm, &arrived));
        if (!arrived) return TRINE_OK;
        TRY(advance(s, r, &ended));
        if (ended) close_reduction(s, r);
    }
}

trine_status started_advance(trine_world *world) {
    if (world->shm_busy) TRY(world->shm_move(world));
    return started_move(world);
}
