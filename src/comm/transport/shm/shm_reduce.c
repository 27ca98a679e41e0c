/* Reductions: each rank adds its slice, in rank order, directly from the addends' places. */
#include "comm/reduce/rank_order.h"
#include "comm/transport/mpi/started.h"
#include "comm/transport/shm/shm.h"

#include <string.h>

static void find_addends(const shm_state *s, const void **addends, uint64_t call, const void *own,
                         size_t bytes, size_t offset) {
    for (int i = 0; i < s->comm->size; i++)
        addends[i] =
            (i == s->comm->rank ? (const char *)own : shm_src_of(s, i, call, bytes)) + offset;
}

/* The addends at `offset` bytes of every member's src; this rank's own src is `own`. */
static const void *const *addends_of(shm_state *s, uint64_t call, const void *own, size_t bytes,
                                     size_t offset) {
    find_addends(s, s->comm->world->addends, call, own, bytes, offset);
    return s->comm->world->addends;
}

static const void *const *staged_addends(shm_state *s, uint64_t segment, size_t offset) {
    const void **addends = s->comm->world->addends;
    for (int i = 0; i < s->comm->size; i++) addends[i] = shm_stage(s, i, segment) + offset;
    return addends;
}

/* The slice of `rank` of `count` elements. */
static size_t slice_count(const shm_state *s, size_t count, int rank, size_t *first) {
    size_t n = rank_order_slice(count, s->comm->size, rank);
    *first = n ? (size_t)rank * rank_order_slice_size(count, s->comm->size) : 0;
    return n;
}

/* Each rank adds its slice and writes it to every dst. In place this is safe at once: no other rank
 * reads any src in this slice. */
static void all_reduce_direct(shm_state *s, uint64_t call, char *dst, const char *src, size_t count,
                              trine_dtype type, trine_reduction op) {
    size_t first, n = slice_count(s, count, s->comm->rank, &first);
    size_t offset = first * trine_dtype_bytes(type);
    if (!n) return;
    for (int k = 0; k < s->comm->size; k++) {
        int i = (s->comm->rank + k) % s->comm->size;
        char *to = k == 0 ? dst : shm_dst_of(s, i, call);
        s->dsts[k] = to + offset;
    }
    size_t touched = 2 * (size_t)s->comm->size * count * trine_dtype_bytes(type);
    const rank_order_target to = {s->dsts, s->comm->size, touched > s->node->cache};
    rank_order_combine_to(&to, addends_of(s, call, src, count * trine_dtype_bytes(type), offset),
                          s->comm->size, n, type, op);
}

/* For each segment: every rank copies its addend into its staging memory, sums its own slice over
 * it, and reads all slices from there. */
static trine_status all_reduce_staged(shm_state *s, char *dst, const char *src, size_t count,
                                      trine_dtype type, trine_reduction op) {
    size_t element = trine_dtype_bytes(type), step = SHM_STAGE / element;
    int size = s->comm->size, rank = s->comm->rank;
    uint64_t segment = 0;
    for (size_t at = 0; at < count; at += step, segment++) {
        size_t all = count - at < step ? count - at : step, first;
        memcpy(shm_stage(s, rank, segment), src + at * element, all * element);
        TRY(shm_meet(s));
        size_t n = slice_count(s, all, rank, &first);
        rank_order_combine(shm_stage(s, rank, segment) + first * element,
                           staged_addends(s, segment, first * element), size, n, type, op);
        TRY(shm_meet(s));
        for (int i = 0; i < size; i++) {
            n = slice_count(s, all, i, &first);
            memcpy(dst + (at + first) * element, shm_stage(s, i, segment) + first * element,
                   n * element);
        }
    }
    return TRINE_OK;
}

trine_status shm_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                            trine_dtype type, trine_reduction op) {
    shm_state *s = comm->shm;
    size_t bytes = count * trine_dtype_bytes(type);
    uint64_t call;
    if (!count) return TRINE_OK;
    TRY(shm_open_call(s, src, bytes, shm_fits_payload(s, bytes) ? NULL : dst, bytes, &call));
    shm_form f = shm_form_of(s, call, bytes, true);
    if (f == SHM_FORM_PAYLOAD)
        rank_order_combine(dst, addends_of(s, call, src, bytes, 0), comm->size, count, type, op);
    if (f == SHM_FORM_DIRECT) all_reduce_direct(s, call, dst, src, count, type, op);
    if (f == SHM_FORM_STAGED) TRY(all_reduce_staged(s, dst, src, count, type, op));
    return shm_close_call(s, call, f);
}

bool shm_reduces_to_all(const comm_request *r) {
    return r->kind == TRINE_TALLY_ALL_REDUCE;
}

void shm_reduce_part(shm_state *s, const comm_request *r, shm_form f) {
    size_t element = trine_dtype_bytes(r->type), part = r->count / (size_t)s->comm->size;
    if (shm_reduces_to_all(r) && f == SHM_FORM_DIRECT) {
        all_reduce_direct(s, r->number, r->dst, r->src, r->count, r->type, r->op);
        return;
    }
    size_t n = shm_reduces_to_all(r) ? r->count : part;
    size_t offset = shm_reduces_to_all(r) ? 0 : (size_t)s->comm->rank * part * element;
    const void **addends = s->comm->world->addends;
    int before = r->op == COMM_SUM_ONTO;
    addends[0] = r->dst;
    find_addends(s, addends + before, r->number, r->src, r->count * element, offset);
    rank_order_combine(r->dst, addends, before + s->comm->size, n, r->type, r->op);
}

/* all-reduce and reduce-scatter */
static trine_status start(trine_comm *comm, void *dst, const void *src, size_t dst_bytes,
                          comm_request *r) {
    shm_state *s = comm->shm;
    r->bytes = r->count * trine_dtype_bytes(r->type);
    r->state = r->count ? SHM_POSTED : SHM_DONE;
    if (!r->count) return TRINE_OK;
    bool written = shm_reduces_to_all(r) && !shm_fits_payload(s, r->bytes);
    TRY(shm_announce(s, src, r->bytes, written ? dst : NULL, dst_bytes, false, &r->number));
    started_add(r, dst, src, STARTED_UNKNOWN);
    shm_enlist(s, r);
    return TRINE_OK;
}

trine_status shm_all_reduce_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                  trine_dtype type, trine_reduction op, comm_request *r) {
    (void)op;
    return start(comm, dst, src, count * trine_dtype_bytes(type), r);
}

trine_status shm_reduce_scatter_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                      trine_dtype type, trine_reduction op, comm_request *r) {
    (void)op;
    return start(comm, dst, src, count / (size_t)comm->size * trine_dtype_bytes(type), r);
}

/* For each segment: as much of every rank's part as the staging memory holds. */
static trine_status reduce_scatter_staged(shm_state *s, char *dst, const char *src, size_t part,
                                          trine_dtype type, trine_reduction op) {
    size_t element = trine_dtype_bytes(type), size = (size_t)s->comm->size;
    size_t step = SHM_STAGE / size / element;
    uint64_t segment = 0;
    for (size_t at = 0; at < part; at += step, segment++) {
        size_t n = part - at < step ? part - at : step;
        char *own = shm_stage(s, s->comm->rank, segment);
        for (size_t i = 0; i < size; i++)
            memcpy(own + i * step * element, src + (i * part + at) * element, n * element);
        TRY(shm_meet(s));
        size_t offset = (size_t)s->comm->rank * step * element;
        rank_order_combine(dst + at * element, staged_addends(s, segment, offset), s->comm->size, n,
                           type, op);
    }
    return TRINE_OK;
}

trine_status shm_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                trine_dtype type, trine_reduction op) {
    shm_state *s = comm->shm;
    size_t element = trine_dtype_bytes(type), bytes = count * element;
    size_t part = count / (size_t)comm->size;
    uint64_t call;
    if (!count) return TRINE_OK;
    TRY(shm_open_call(s, src, bytes, NULL, 0, &call));
    shm_form f = shm_form_of(s, call, bytes, false);
    if (f == SHM_FORM_STAGED)
        TRY(reduce_scatter_staged(s, dst, src, part, type, op));
    else
        rank_order_combine(dst,
                           addends_of(s, call, src, bytes, (size_t)comm->rank * part * element),
                           comm->size, part, type, op);
    return shm_close_call(s, call, f);
}

/* Only the root adds: it alone needs the result. */
static trine_status reduce_staged(shm_state *s, char *dst, const char *src, size_t count,
                                  trine_dtype type, trine_reduction op, int root) {
    size_t element = trine_dtype_bytes(type), step = SHM_STAGE / element;
    uint64_t segment = 0;
    for (size_t at = 0; at < count; at += step, segment++) {
        size_t n = count - at < step ? count - at : step;
        memcpy(shm_stage(s, s->comm->rank, segment), src + at * element, n * element);
        TRY(shm_meet(s));
        if (s->comm->rank == root)
            rank_order_combine(dst + at * element, staged_addends(s, segment, 0), s->comm->size, n,
                               type, op);
    }
    return TRINE_OK;
}

static trine_status reduce_short(shm_state *s, void *dst, const void *src, size_t count,
                                 trine_dtype type, trine_reduction op, int root) {
    const void **addends = s->comm->world->addends;
    TRY(shm_short_to(s, src, count * trine_dtype_bytes(type), root));
    for (int i = 0; i < s->comm->size; i++) addends[i] = i == root ? src : shm_short_of(s, i);
    if (s->comm->rank == root) rank_order_combine(dst, addends, s->comm->size, count, type, op);
    shm_short_end(s);
    return TRINE_OK;
}

trine_status shm_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                        trine_dtype type, trine_reduction op, int root) {
    shm_state *s = comm->shm;
    size_t bytes = count * trine_dtype_bytes(type);
    uint64_t call;
    if (!count) return TRINE_OK;
    if (shm_is_short(bytes)) return reduce_short(s, dst, src, count, type, op, root);
    TRY(shm_open_call(s, src, bytes, NULL, 0, &call));
    shm_form f = shm_form_of(s, call, bytes, false);
    if (f == SHM_FORM_STAGED)
        TRY(reduce_staged(s, dst, src, count, type, op, root));
    else if (comm->rank == root)
        rank_order_combine(dst, addends_of(s, call, src, bytes, 0), comm->size, count, type, op);
    return shm_close_call(s, call, f);
}
