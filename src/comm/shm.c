/* The collectives of ranks that share a node. A call is announced in the group's ring: where this
 * rank's buffers lie, or a short payload itself. When all have arrived, each reads what it needs
 * where it lies, in rank order where it adds, and nobody goes on before all have read.
 *
 * Three forms. Payload: short data lies in the ring; one arrival, nothing to wait for afterwards.
 * Direct: the buffers lie in windows. Staged: somebody's buffer does not, which everybody sees in
 * the ring; then all copy through their staging memory, a piece at a time, in two halves, so that a
 * piece is filled while the one before may still be read. */
#include "comm/shm.h"

#include <stdlib.h>
#include <string.h>

/* ---- Arrivals and phases --------------------------------------------------------------------- */

static shm_counter *arrivals(const shm_state *s, uint64_t call) {
    return &s->block[0]->arrived[call % SHM_RING];
}

static uint64_t all_arrived(const shm_state *s, uint64_t call) {
    return (uint64_t)s->comm->size * (call / SHM_RING + 1);
}

static shm_counter *passes(const shm_state *s, uint64_t phase) {
    return &s->block[0]->passed[phase % SHM_PHASES];
}

static uint64_t all_passed(const shm_state *s, uint64_t phase) {
    return (uint64_t)s->comm->size * (phase / SHM_PHASES + 1);
}

/* Counts this rank; the last one wakes who waits. */
static void tick(const shm_state *s, shm_counter *counter, uint64_t all) {
    if (atomic_fetch_add_explicit(counter, 1, memory_order_acq_rel) + 1 == all) shm_ring_all(s);
}

/* Returns the phase that this rank has reached, for those who wait for it. */
static uint64_t pass(shm_state *s) {
    uint64_t phase = s->phase++;
    tick(s, passes(s, phase), all_passed(s, phase));
    return phase;
}

static trine_status await_phase(shm_state *s, uint64_t phase) {
    return shm_await(s, passes(s, phase), all_passed(s, phase));
}

static trine_status meet(shm_state *s) {
    return await_phase(s, pass(s));
}

static trine_status await_arrivals(shm_state *s, uint64_t call) {
    return shm_await(s, arrivals(s, call), all_arrived(s, call));
}

static const shm_desc *desc_of(const shm_state *s, int member, uint64_t call) {
    return &s->block[member]->ring[call % SHM_RING];
}

static void *peer_at(const shm_state *s, int member, shm_place place) {
    return shm_at(s->node, s->index[member], place);
}

/* ---- Announcing ------------------------------------------------------------------------------ */

static trine_status finish_gathers(shm_state *s, uint64_t before);

/* Announces the next call. A short src travels along. The ring's entry has to be free: all must
 * have finished the call that had it before. Returns the call's number. */
static trine_status announce(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                             size_t dst_bytes, uint64_t *number) {
    uint64_t call = *number = s->calls++;
    shm_desc *d = &s->block[s->comm->rank]->ring[call % SHM_RING];
    if (call >= SHM_RING) TRY(finish_gathers(s, call - SHM_RING + 1));
    uint64_t freed = s->free_at[call % SHM_RING];
    if (freed) TRY(await_phase(s, freed - 1));
    d->dst = shm_find(s->node, dst, dst_bytes);
    d->bytes = src_bytes;
    if (src_bytes <= shm_payload_bytes(s->comm->size)) {
        if (src_bytes) memcpy(shm_payload(s, s->comm->rank, call), src, src_bytes);
        d->src = (shm_place){SHM_PAYLOAD, 0};
    } else {
        d->src = shm_find(s->node, src, src_bytes);
    }
    tick(s, arrivals(s, call), all_arrived(s, call));
    return TRINE_OK;
}

/* This rank has finished a call: when all are in the last phase its place in the ring is free. */
static void finished(shm_state *s, uint64_t call) {
    s->free_at[call % SHM_RING] = s->phase;
}

/* Where `member`'s src lies for this rank. */
static const char *src_of(const shm_state *s, int member, uint64_t call) {
    shm_place place = desc_of(s, member, call)->src;
    if (place.window == SHM_PAYLOAD) return shm_payload(s, member, call);
    return peer_at(s, member, place);
}

typedef enum { PAYLOAD, DIRECT, STAGED } form;

/* What everybody sees alike once all have arrived. */
static form form_of(const shm_state *s, uint64_t call, bool dst_too) {
    for (int i = 0; i < s->comm->size; i++) {
        const shm_desc *d = desc_of(s, i, call);
        if (d->src.window == SHM_PAYLOAD) return PAYLOAD;
        if (d->src.window == SHM_NOWHERE) return STAGED;
        if (dst_too && d->dst.window == SHM_NOWHERE) return STAGED;
    }
    return DIRECT;
}

/* ---- Requests under way ---------------------------------------------------------------------- */

void shm_enlist(shm_state *s, comm_request *r) {
    r->next = NULL;
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    if (s->busy) return;
    s->busy = true;
    s->next_busy = s->comm->world->shm_busy;
    s->comm->world->shm_busy = s;
}

static void copy_parts(const shm_state *s, const comm_request *r) {
    int size = s->comm->size;
    for (int k = 0; k < size; k++) {
        int i = (s->comm->rank + k) % size;
        char *to = (char *)r->dst + (size_t)i * r->bytes;
        const char *from = i == s->comm->rank ? r->src : src_of(s, i, r->number);
        if (to != from) memcpy(to, from, r->bytes);
    }
}

static char *stage(const shm_state *s, int member, uint64_t piece) {
    shm_head *h = (shm_head *)s->node->control->base[s->index[member]];
    return h->stage[piece % 2];
}

static trine_status gather_staged(shm_state *s, const comm_request *r) {
    int size = s->comm->size;
    uint64_t piece = 0;
    for (size_t at = 0; at < r->bytes; at += SHM_STAGE, piece++) {
        size_t n = r->bytes - at < SHM_STAGE ? r->bytes - at : SHM_STAGE;
        memcpy(stage(s, s->comm->rank, piece), (const char *)r->src + at, n);
        TRY(meet(s));
        for (int i = 0; i < size; i++)
            memcpy((char *)r->dst + (size_t)i * r->bytes + at, stage(s, i, piece), n);
    }
    return meet(s);
}

static bool counted(const shm_counter *counter, uint64_t all) {
    return atomic_load_explicit(counter, memory_order_acquire) >= all;
}

/* One all-gather, whose turn it is: all those started before it have copied. Staged ones are left
 * to who waits for them, since they take everybody's help. */
static trine_status move_gather(shm_state *s, comm_request *r, bool waits) {
    if (r->state == SHM_POSTED) {
        if (!counted(arrivals(s, r->number), all_arrived(s, r->number))) return TRINE_OK;
        form f = form_of(s, r->number, false);
        if (f == STAGED && !waits) return TRINE_OK;
        if (f == STAGED)
            TRY(gather_staged(s, r));
        else
            copy_parts(s, r);
        r->phase = pass(s);
        finished(s, r->number);
        r->state = f == DIRECT ? SHM_LEFT : SHM_DONE;
    }
    if (r->state == SHM_LEFT && counted(passes(s, r->phase), all_passed(s, r->phase)))
        r->state = SHM_DONE;
    return TRINE_OK;
}

static bool is_message(const comm_request *r) {
    return r->kind != TRINE_TALLY_ALL_GATHER;
}

static void remove_done(shm_state *s) {
    comm_request **at = &s->first;
    s->last = NULL;
    while (*at) {
        if ((*at)->state == SHM_DONE) {
            *at = (*at)->next;
        } else {
            s->last = *at;
            at = &(*at)->next;
        }
    }
}

/* Moves all of a group's requests; `waiting` may do what needs everybody's help. */
static trine_status move_requests(shm_state *s, const comm_request *waiting) {
    bool gathers = true, done = false;
    for (comm_request *r = s->first; r; r = r->next) {
        if (is_message(r))
            TRY(shm_move_message(s->comm, r));
        else if (gathers)
            TRY(move_gather(s, r, waiting != NULL));
        if (!is_message(r) && r->state == SHM_POSTED) gathers = false;
        done = done || r->state == SHM_DONE;
    }
    if (done) remove_done(s);
    return TRINE_OK;
}

trine_status shm_progress(trine_world *world) {
    shm_state **at = &world->shm_busy;
    while (*at) {
        shm_state *s = *at;
        TRY(move_requests(s, NULL));
        s->busy = s->first != NULL;
        if (s->busy)
            at = &s->next_busy;
        else
            *at = s->next_busy;
    }
    return TRINE_OK;
}

/* The gather that must move before any later call of the group. */
static const shm_counter *gather_counter(const shm_state *s, uint64_t *target) {
    const comm_request *r = s->first;
    while (r && (is_message(r) || r->state == SHM_DONE)) r = r->next;
    if (!r) return NULL;
    *target = r->state == SHM_LEFT ? all_passed(s, r->phase) : all_arrived(s, r->number);
    return r->state == SHM_LEFT ? passes(s, r->phase) : arrivals(s, r->number);
}

static trine_status shm_wait(trine_comm *comm, comm_request *r) {
    shm_state *s = comm->shm;
    shm_patience patience = {0};
    for (;;) {
        uint64_t target = 0;
        if (r->state != SHM_DONE) TRY(move_requests(s, is_message(r) ? NULL : r));
        if (r->state == SHM_DONE) return TRINE_OK;
        const shm_counter *counter =
            is_message(r) ? shm_message_counter(comm, r, &target) : gather_counter(s, &target);
        TRY(shm_pause(s->node, counter, target, &patience));
    }
}

static trine_status shm_wait_received(trine_comm *comm, comm_request *r, size_t bytes) {
    (void)bytes; /* checked when it came */
    return shm_wait(comm, r);
}

/* Collectives of a group finish in order: a call that blocks first finishes those started earlier. */
static trine_status finish_gathers(shm_state *s, uint64_t before) {
    comm_request *r = s->first;
    while (r) {
        if (is_message(r) || r->state == SHM_DONE || r->number >= before) {
            r = r->next;
            continue;
        }
        TRY(shm_wait(s->comm, r));
        r = s->first;
    }
    return TRINE_OK;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

/* Announces a call that blocks, and waits for all to arrive. */
static trine_status open_call(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                              size_t dst_bytes, uint64_t *call) {
    TRY(finish_gathers(s, s->calls));
    TRY(announce(s, src, src_bytes, dst, dst_bytes, call));
    return await_arrivals(s, *call);
}

/* Ends it; when others may still read what lies with the caller, after they have. */
static trine_status close_call(shm_state *s, uint64_t call, form f) {
    uint64_t phase = pass(s);
    finished(s, call);
    return f == PAYLOAD ? TRINE_OK : await_phase(s, phase);
}

/* The addends of [offset, ...) bytes of everybody's src; this rank's own lies at `own`. */
static const void *const *addends_of(shm_state *s, uint64_t call, const void *own, size_t offset) {
    const void **addends = s->comm->world->addends;
    for (int i = 0; i < s->comm->size; i++)
        addends[i] = (i == s->comm->rank ? (const char *)own : src_of(s, i, call)) + offset;
    return addends;
}

static const void *const *staged_addends(shm_state *s, uint64_t piece, size_t offset) {
    const void **addends = s->comm->world->addends;
    for (int i = 0; i < s->comm->size; i++) addends[i] = stage(s, i, piece) + offset;
    return addends;
}

/* What falls to `rank` of `count` elements in slices. */
static size_t slice_count(const shm_state *s, size_t count, int rank, size_t *first) {
    size_t n = ordered_slice(count, s->comm->size, rank);
    *first = n ? (size_t)rank * ordered_slice_size(count, s->comm->size) : 0;
    return n;
}

/* Each rank adds its slice and writes it to everybody. In place that is safe at once: nobody but
 * this rank reads anybody's src there. */
static void all_reduce_direct(shm_state *s, uint64_t call, char *dst, const char *src, size_t count,
                              trine_dtype type, trine_reduction op) {
    size_t first, n = slice_count(s, count, s->comm->rank, &first);
    size_t offset = first * trine_dtype_bytes(type);
    if (!n) return;
    for (int k = 0; k < s->comm->size; k++) {
        int i = (s->comm->rank + k) % s->comm->size;
        char *to = k == 0 ? dst : peer_at(s, i, desc_of(s, i, call)->dst);
        s->dsts[k] = to + offset;
    }
    ordered_combine_to(s->dsts, s->comm->size, addends_of(s, call, src, offset), s->comm->size, n,
                       type, op);
}

/* A piece: everybody's addend into the staging memory, the sum of the own slice over it, and all
 * slices from there. */
static trine_status all_reduce_staged(shm_state *s, char *dst, const char *src, size_t count,
                                      trine_dtype type, trine_reduction op) {
    size_t element = trine_dtype_bytes(type), step = SHM_STAGE / element;
    int size = s->comm->size, rank = s->comm->rank;
    uint64_t piece = 0;
    for (size_t at = 0; at < count; at += step, piece++) {
        size_t all = count - at < step ? count - at : step, first;
        memcpy(stage(s, rank, piece), src + at * element, all * element);
        TRY(meet(s));
        size_t n = slice_count(s, all, rank, &first);
        ordered_combine(stage(s, rank, piece) + first * element,
                        staged_addends(s, piece, first * element), size, n, type, op);
        TRY(meet(s));
        for (int i = 0; i < size; i++) {
            n = slice_count(s, all, i, &first);
            memcpy(dst + (at + first) * element, stage(s, i, piece) + first * element, n * element);
        }
    }
    return TRINE_OK;
}

static trine_status shm_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op) {
    shm_state *s = comm->shm;
    size_t bytes = count * trine_dtype_bytes(type);
    uint64_t call;
    if (!count) return TRINE_OK;
    TRY(open_call(s, src, bytes, dst, bytes, &call));
    form f = form_of(s, call, true);
    if (f == PAYLOAD)
        ordered_combine(dst, addends_of(s, call, src, 0), comm->size, count, type, op);
    if (f == DIRECT) all_reduce_direct(s, call, dst, src, count, type, op);
    if (f == STAGED) TRY(all_reduce_staged(s, dst, src, count, type, op));
    return close_call(s, call, f);
}

/* A piece: for every rank as much of its part as the staging memory holds. */
static trine_status reduce_scatter_staged(shm_state *s, char *dst, const char *src, size_t part,
                                          trine_dtype type, trine_reduction op) {
    size_t element = trine_dtype_bytes(type), size = (size_t)s->comm->size;
    size_t step = SHM_STAGE / size / element;
    uint64_t piece = 0;
    for (size_t at = 0; at < part; at += step, piece++) {
        size_t n = part - at < step ? part - at : step;
        char *own = stage(s, s->comm->rank, piece);
        for (size_t i = 0; i < size; i++)
            memcpy(own + i * step * element, src + (i * part + at) * element, n * element);
        TRY(meet(s));
        size_t offset = (size_t)s->comm->rank * step * element;
        ordered_combine(dst + at * element, staged_addends(s, piece, offset), s->comm->size, n,
                        type, op);
    }
    return TRINE_OK;
}

static trine_status shm_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                       trine_dtype type, trine_reduction op) {
    shm_state *s = comm->shm;
    size_t element = trine_dtype_bytes(type), part = count / (size_t)comm->size;
    uint64_t call;
    if (!count) return TRINE_OK;
    TRY(open_call(s, src, count * element, NULL, 0, &call));
    form f = form_of(s, call, false);
    if (f == STAGED)
        TRY(reduce_scatter_staged(s, dst, src, part, type, op));
    else
        ordered_combine(dst, addends_of(s, call, src, (size_t)comm->rank * part * element),
                        comm->size, part, type, op);
    return close_call(s, call, f);
}

/* The root adds alone: everything ends with it. */
static trine_status reduce_staged(shm_state *s, char *dst, const char *src, size_t count,
                                  trine_dtype type, trine_reduction op, int root) {
    size_t element = trine_dtype_bytes(type), step = SHM_STAGE / element;
    uint64_t piece = 0;
    for (size_t at = 0; at < count; at += step, piece++) {
        size_t n = count - at < step ? count - at : step;
        memcpy(stage(s, s->comm->rank, piece), src + at * element, n * element);
        TRY(meet(s));
        if (s->comm->rank == root)
            ordered_combine(dst + at * element, staged_addends(s, piece, 0), s->comm->size, n, type,
                            op);
    }
    return TRINE_OK;
}

static trine_status shm_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                               trine_dtype type, trine_reduction op, int root) {
    shm_state *s = comm->shm;
    uint64_t call;
    if (!count) return TRINE_OK;
    TRY(open_call(s, src, count * trine_dtype_bytes(type), NULL, 0, &call));
    form f = form_of(s, call, false);
    if (f == STAGED)
        TRY(reduce_staged(s, dst, src, count, type, op, root));
    else if (comm->rank == root)
        ordered_combine(dst, addends_of(s, call, src, 0), comm->size, count, type, op);
    return close_call(s, call, f);
}

/* ---- Movement -------------------------------------------------------------------------------- */

static trine_status shm_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t part,
                                         comm_request *r) {
    shm_state *s = comm->shm;
    r->kind = TRINE_TALLY_ALL_GATHER;
    r->dst = dst;
    r->src = src;
    r->bytes = part;
    r->state = SHM_POSTED;
    TRY(announce(s, src, part, NULL, 0, &r->number));
    shm_enlist(s, r);
    return TRINE_OK;
}

/* What one rank has for all (bytes; part of it for each, when it is scattered), piece by piece. */
static trine_status from_root_staged(shm_state *s, char *dst, const char *src, size_t bytes,
                                     int root) {
    uint64_t piece = 0;
    for (size_t at = 0; at < bytes; at += SHM_STAGE, piece++) {
        size_t n = bytes - at < SHM_STAGE ? bytes - at : SHM_STAGE;
        if (s->comm->rank == root) memcpy(stage(s, root, piece), src + at, n);
        TRY(meet(s));
        if (s->comm->rank != root) memcpy(dst + at, stage(s, root, piece), n);
    }
    return TRINE_OK;
}

static form form_of_root(const shm_state *s, uint64_t call, int root) {
    int64_t window = desc_of(s, root, call)->src.window;
    return window == SHM_PAYLOAD ? PAYLOAD : window == SHM_NOWHERE ? STAGED : DIRECT;
}

static trine_status shm_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    shm_state *s = comm->shm;
    bool is_root = comm->rank == root;
    uint64_t call;
    if (!bytes) return TRINE_OK;
    TRY(open_call(s, is_root ? buf : NULL, is_root ? bytes : 0, NULL, 0, &call));
    form f = form_of_root(s, call, root);
    if (f == STAGED)
        TRY(from_root_staged(s, buf, buf, bytes, root));
    else if (!is_root)
        memcpy(buf, src_of(s, root, call), bytes);
    return close_call(s, call, f);
}

static trine_status scatter_staged(shm_state *s, char *dst, const char *src, size_t part,
                                   int root) {
    size_t size = (size_t)s->comm->size, step = SHM_STAGE / size;
    uint64_t piece = 0;
    for (size_t at = 0; at < part; at += step, piece++) {
        size_t n = part - at < step ? part - at : step;
        for (size_t i = 0; s->comm->rank == root && i < size; i++)
            memcpy(stage(s, root, piece) + i * step, src + i * part + at, n);
        TRY(meet(s));
        memmove(dst + at, stage(s, root, piece) + (size_t)s->comm->rank * step, n);
    }
    return TRINE_OK;
}

static trine_status shm_scatter(trine_comm *comm, void *dst, const void *src, size_t part,
                                int root) {
    shm_state *s = comm->shm;
    bool is_root = comm->rank == root;
    size_t whole = part * (size_t)comm->size, own = (size_t)comm->rank * part;
    uint64_t call;
    if (!part) return TRINE_OK;
    TRY(open_call(s, is_root ? src : NULL, is_root ? whole : 0, NULL, 0, &call));
    form f = form_of_root(s, call, root);
    if (f == STAGED) {
        TRY(scatter_staged(s, dst, src, part, root));
    } else {
        const char *from = (is_root ? (const char *)src : src_of(s, root, call)) + own;
        if (from != dst) memcpy(dst, from, part);
    }
    return close_call(s, call, f);
}

static trine_status gather_to_root_staged(shm_state *s, char *dst, const char *src, size_t part,
                                          int root) {
    uint64_t piece = 0;
    for (size_t at = 0; at < part; at += SHM_STAGE, piece++) {
        size_t n = part - at < SHM_STAGE ? part - at : SHM_STAGE;
        memcpy(stage(s, s->comm->rank, piece), src + at, n);
        TRY(meet(s));
        for (int i = 0; s->comm->rank == root && i < s->comm->size; i++)
            memcpy(dst + (size_t)i * part + at, stage(s, i, piece), n);
    }
    return TRINE_OK;
}

static trine_status shm_gather(trine_comm *comm, void *dst, const void *src, size_t part,
                               int root) {
    shm_state *s = comm->shm;
    uint64_t call;
    if (!part) return TRINE_OK;
    TRY(open_call(s, src, part, NULL, 0, &call));
    form f = form_of(s, call, false);
    if (f == STAGED)
        TRY(gather_to_root_staged(s, dst, src, part, root));
    else if (comm->rank == root)
        copy_parts(s, &(comm_request){.dst = dst, .src = src, .bytes = part, .number = call});
    return close_call(s, call, f);
}

/* Through the staging memory: what others read from it nobody overwrites, so dst may be src. */
static trine_status all_to_all_staged(shm_state *s, char *dst, const char *src, size_t part) {
    size_t size = (size_t)s->comm->size, rank = (size_t)s->comm->rank, step = SHM_STAGE / size;
    uint64_t piece = 0;
    for (size_t at = 0; at < part; at += step, piece++) {
        size_t n = part - at < step ? part - at : step;
        for (size_t i = 0; i < size; i++)
            memcpy(stage(s, (int)rank, piece) + i * step, src + i * part + at, n);
        TRY(meet(s));
        for (size_t i = 0; i < size; i++)
            memcpy(dst + i * part + at, stage(s, (int)i, piece) + rank * step, n);
    }
    return TRINE_OK;
}

static trine_status shm_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    shm_state *s = comm->shm;
    size_t size = (size_t)comm->size, own = (size_t)comm->rank * part;
    uint64_t call;
    if (!part) return TRINE_OK;
    /* In place nobody may read where another writes: as if it lay in no window. */
    const void *readable = dst == src && part * size > shm_payload_bytes(comm->size) ? NULL : src;
    TRY(open_call(s, readable, part * size, NULL, 0, &call));
    form f = form_of(s, call, false);
    if (f == STAGED) {
        TRY(all_to_all_staged(s, dst, src, part));
        return close_call(s, call, f);
    }
    for (int k = 0; k < comm->size; k++) {
        int i = (comm->rank + k) % comm->size;
        const char *from = (i == comm->rank ? (const char *)src : src_of(s, i, call)) + own;
        char *to = (char *)dst + (size_t)i * part;
        if (to != from) memcpy(to, from, part);
    }
    return close_call(s, call, f);
}

static trine_status shm_barrier(trine_comm *comm) {
    shm_state *s = comm->shm;
    uint64_t call;
    TRY(open_call(s, NULL, 0, NULL, 0, &call));
    return close_call(s, call, PAYLOAD);
}

/* ---- Steps of a call, for nodes.c ------------------------------------------------------------- */

trine_status shm_begin(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                       size_t dst_bytes, uint64_t *call) {
    return open_call(s, src, src_bytes, dst, dst_bytes, call);
}

trine_status shm_meet(shm_state *s) {
    return meet(s);
}

trine_status shm_end(shm_state *s, uint64_t call) {
    return close_call(s, call, DIRECT);
}

bool shm_reachable(const shm_state *s, uint64_t call) {
    for (int i = 0; i < s->comm->size; i++) {
        const shm_desc *d = desc_of(s, i, call);
        if (d->src.window == SHM_NOWHERE || d->dst.window == SHM_NOWHERE) return false;
    }
    return true;
}

const char *shm_src(const shm_state *s, int member, uint64_t call) {
    return src_of(s, member, call);
}

char *shm_dst(const shm_state *s, int member, uint64_t call) {
    return peer_at(s, member, desc_of(s, member, call)->dst);
}

char *shm_stage(const shm_state *s, int member, uint64_t piece) {
    return stage(s, member, piece);
}

/* ---- Control memory -------------------------------------------------------------------------- */

static size_t block_bytes(int size) {
    size_t members = (size_t)size;
    if (size < 2) return 0;
    return sizeof(shm_block) + SHM_RING * shm_payload_bytes(size) +
           members * (sizeof(shm_outbox) + sizeof(shm_taken));
}

size_t shm_control_bytes(const int sizes[TRINE_GROUPS]) {
    size_t bytes = sizeof(shm_head);
    for (int g = 0; g < TRINE_GROUPS; g++) bytes += block_bytes(sizes[g]);
    return bytes;
}

void shm_layout(shm_node *node, const int sizes[TRINE_GROUPS]) {
    shm_head *own = (shm_head *)node->control->own;
    size_t at = sizeof *own;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        own->block[g] = sizes[g] > 1 ? at : 0;
        at += block_bytes(sizes[g]);
    }
}

/* An edge is the outgoing one of the earlier stage and the incoming one of the later. */
static trine_group name_at(trine_group own, int member, int rank) {
    if (member == rank) return own;
    switch (own) {
    case TRINE_ACT_IN: return TRINE_ACT_OUT;
    case TRINE_ACT_OUT: return TRINE_ACT_IN;
    case TRINE_GRAD_IN: return TRINE_GRAD_OUT;
    case TRINE_GRAD_OUT: return TRINE_GRAD_IN;
    default: return own;
    }
}

static int index_in(const shm_node *node, int world_rank) {
    int i = 0;
    while (node->members[i] != world_rank) i++;
    return i;
}

trine_status shm_attach(trine_comm *comm, shm_node *node) {
    size_t size = (size_t)comm->size;
    shm_state *s = comm->shm = calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for group %s", comm_group_name(comm->group));
    s->node = node;
    s->comm = comm;
    s->index = calloc(size, sizeof *s->index);
    s->block = calloc(size, sizeof *s->block);
    s->dsts = calloc(size, sizeof *s->dsts);
    s->sent = calloc(size, sizeof *s->sent);
    s->received = calloc(size, sizeof *s->received);
    CHECK(s->index && s->block && s->dsts && s->sent && s->received, TRINE_ENOMEM,
          "no memory for group %s of %zu", comm_group_name(comm->group), size);
    for (int i = 0; i < comm->size; i++) {
        s->index[i] = index_in(node, comm->members[i]);
        char *base = node->control->base[s->index[i]];
        s->block[i] =
            (shm_block *)(base + ((shm_head *)base)->block[name_at(comm->group, i, comm->rank)]);
    }
    comm->transport = &shm_transport;
    return TRINE_OK;
}

void shm_detach(trine_comm *comm) {
    shm_state *s = comm->shm;
    if (!s) return;
    for (shm_state **at = &comm->world->shm_busy; *at; at = &(*at)->next_busy)
        if (*at == s) {
            *at = s->next_busy;
            break;
        }
    free(s->index);
    free(s->block);
    free(s->dsts);
    free(s->sent);
    free(s->received);
    free(s);
    comm->shm = NULL;
}

static void shm_destroy(trine_comm *comm) {
    shm_detach(comm);
    mpi_free(&comm->state);
}

const comm_transport shm_transport = {
    .name = "shm",
    .broadcast = shm_broadcast,
    .scatter = shm_scatter,
    .gather = shm_gather,
    .all_to_all = shm_all_to_all,
    .barrier = shm_barrier,
    .all_reduce = shm_all_reduce,
    .reduce = shm_reduce,
    .reduce_scatter = shm_reduce_scatter,
    .all_gather_start = shm_all_gather_start,
    .send_start = shm_send_start,
    .recv_start = shm_recv_start,
    .wait = shm_wait,
    .wait_received = shm_wait_received,
    .destroy = shm_destroy,
};
