/* Movement: each rank reads its data from where the sender has it. */
#include "comm/transport/mpi/started.h"
#include "comm/transport/shm/shm.h"

#include <string.h>

/* The root's data for all ranks (bytes; a part for each if scattered), a segment at a time. */
static trine_status from_root_staged(shm_state *s, char *dst, const char *src, size_t bytes,
                                     int root) {
    uint64_t segment = 0;
    for (size_t at = 0; at < bytes; at += SHM_STAGE, segment++) {
        size_t n = bytes - at < SHM_STAGE ? bytes - at : SHM_STAGE;
        if (s->comm->rank == root) memcpy(shm_stage(s, root, segment), src + at, n);
        TRY(shm_meet(s));
        if (s->comm->rank != root) memcpy(dst + at, shm_stage(s, root, segment), n);
    }
    return TRINE_OK;
}

static shm_form form_of_root(const shm_state *s, uint64_t call, int root) {
    int64_t window = shm_desc_of(s, root, call)->src.window;
    return window == SHM_PAYLOAD   ? SHM_FORM_PAYLOAD
           : window == SHM_NOWHERE ? SHM_FORM_STAGED
                                   : SHM_FORM_DIRECT;
}

static trine_status broadcast_short(shm_state *s, void *buf, size_t bytes, int root) {
    TRY(shm_short_from(s, buf, bytes, root));
    if (s->comm->rank != root) memcpy(buf, shm_short_of(s, root), bytes);
    shm_short_end(s);
    return TRINE_OK;
}

trine_status shm_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    shm_state *s = comm->shm;
    bool is_root = comm->rank == root;
    uint64_t call;
    if (!bytes) return TRINE_OK;
    if (shm_is_short(bytes)) return broadcast_short(s, buf, bytes, root);
    TRY(shm_open_call(s, is_root ? buf : NULL, bytes, NULL, 0, &call));
    shm_form f = form_of_root(s, call, root);
    if (f == SHM_FORM_STAGED)
        TRY(from_root_staged(s, buf, buf, bytes, root));
    else if (!is_root)
        memcpy(buf, shm_src_of(s, root, call, bytes), bytes);
    return shm_close_call(s, call, f);
}

static trine_status scatter_staged(shm_state *s, char *dst, const char *src, size_t part,
                                   int root) {
    size_t size = (size_t)s->comm->size, step = SHM_STAGE / size;
    uint64_t segment = 0;
    for (size_t at = 0; at < part; at += step, segment++) {
        size_t n = part - at < step ? part - at : step;
        for (size_t i = 0; s->comm->rank == root && i < size; i++)
            memcpy(shm_stage(s, root, segment) + i * step, src + i * part + at, n);
        TRY(shm_meet(s));
        memmove(dst + at, shm_stage(s, root, segment) + (size_t)s->comm->rank * step, n);
    }
    return TRINE_OK;
}

static trine_status scatter_short(shm_state *s, void *dst, const void *src, size_t part, int root) {
    TRY(shm_short_from(s, src, part * (size_t)s->comm->size, root));
    memcpy(dst, shm_short_of(s, root) + (size_t)s->comm->rank * part, part);
    shm_short_end(s);
    return TRINE_OK;
}

trine_status shm_scatter(trine_comm *comm, void *dst, const void *src, size_t part, int root) {
    shm_state *s = comm->shm;
    bool is_root = comm->rank == root;
    size_t full = part * (size_t)comm->size, own = (size_t)comm->rank * part;
    uint64_t call;
    if (!part) return TRINE_OK;
    if (shm_is_short(full)) return scatter_short(s, dst, src, part, root);
    TRY(shm_open_call(s, is_root ? src : NULL, full, NULL, 0, &call));
    shm_form f = form_of_root(s, call, root);
    if (f == SHM_FORM_STAGED) {
        TRY(scatter_staged(s, dst, src, part, root));
    } else {
        const char *from = (is_root ? (const char *)src : shm_src_of(s, root, call, full)) + own;
        if (from != dst) memcpy(dst, from, part);
    }
    return shm_close_call(s, call, f);
}

static trine_status gather_to_root_staged(shm_state *s, char *dst, const char *src, size_t part,
                                          int root) {
    uint64_t segment = 0;
    for (size_t at = 0; at < part; at += SHM_STAGE, segment++) {
        size_t n = part - at < SHM_STAGE ? part - at : SHM_STAGE;
        memcpy(shm_stage(s, s->comm->rank, segment), src + at, n);
        TRY(shm_meet(s));
        for (int i = 0; s->comm->rank == root && i < s->comm->size; i++)
            memcpy(dst + (size_t)i * part + at, shm_stage(s, i, segment), n);
    }
    return TRINE_OK;
}

static trine_status gather_short(shm_state *s, char *dst, const void *src, size_t part, int root) {
    TRY(shm_short_to(s, src, part, root));
    for (int i = 0; s->comm->rank == root && i < s->comm->size; i++) {
        const void *from = i == root ? src : shm_short_of(s, i);
        char *to = dst + (size_t)i * part;
        if (to != from) memcpy(to, from, part);
    }
    shm_short_end(s);
    return TRINE_OK;
}

trine_status shm_gather(trine_comm *comm, void *dst, const void *src, size_t part, int root) {
    shm_state *s = comm->shm;
    uint64_t call;
    if (!part) return TRINE_OK;
    if (shm_is_short(part)) return gather_short(s, dst, src, part, root);
    TRY(shm_open_call(s, src, part, NULL, 0, &call));
    shm_form f = shm_form_of(s, call, part, false);
    if (f == SHM_FORM_STAGED)
        TRY(gather_to_root_staged(s, dst, src, part, root));
    else if (comm->rank == root)
        shm_copy_parts(s, &(comm_request){.dst = dst, .src = src, .bytes = part, .number = call});
    return shm_close_call(s, call, f);
}

/* Uses the staging memory: nobody overwrites what others read from it, so dst may be src. */
static trine_status all_to_all_staged(shm_state *s, char *dst, const char *src, size_t part) {
    size_t size = (size_t)s->comm->size, rank = (size_t)s->comm->rank, step = SHM_STAGE / size;
    uint64_t segment = 0;
    for (size_t at = 0; at < part; at += step, segment++) {
        size_t n = part - at < step ? part - at : step;
        for (size_t i = 0; i < size; i++)
            memcpy(shm_stage(s, (int)rank, segment) + i * step, src + i * part + at, n);
        TRY(shm_meet(s));
        for (size_t i = 0; i < size; i++)
            memcpy(dst + i * part + at, shm_stage(s, (int)i, segment) + rank * step, n);
    }
    return TRINE_OK;
}

trine_status shm_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    shm_state *s = comm->shm;
    size_t size = (size_t)comm->size, bytes = part * size, own = (size_t)comm->rank * part;
    uint64_t call;
    if (!part) return TRINE_OK;
    /* In place no rank may read where another writes: handled as a buffer outside of all
     * windows. */
    const void *readable = dst == src && !shm_fits_payload(s, bytes) ? NULL : src;
    TRY(shm_open_call(s, readable, bytes, NULL, 0, &call));
    shm_form f = shm_form_of(s, call, bytes, false);
    if (f == SHM_FORM_STAGED) {
        TRY(all_to_all_staged(s, dst, src, part));
        return shm_close_call(s, call, f);
    }
    for (int k = 0; k < comm->size; k++) {
        int i = (comm->rank + k) % comm->size;
        const char *from =
            (i == comm->rank ? (const char *)src : shm_src_of(s, i, call, bytes)) + own;
        char *to = (char *)dst + (size_t)i * part;
        if (to != from) memcpy(to, from, part);
    }
    return shm_close_call(s, call, f);
}

trine_status shm_progress(trine_comm *comm) {
    return started_advance(comm->world);
}

trine_status shm_barrier(trine_comm *comm) {
    shm_state *s = comm->shm;
    uint64_t call;
    TRY(shm_open_call(s, NULL, 0, NULL, 0, &call));
    return shm_close_call(s, call, SHM_FORM_PAYLOAD);
}
