/* Movement: each rank reads what is for it from where it lies. */
#include "comm/shm.h"

#include <string.h>

/* What one rank has for all (bytes; part of it for each, when it is scattered), piece by piece. */
static trine_status from_root_staged(shm_state *s, char *dst, const char *src, size_t bytes,
                                     int root) {
    uint64_t piece = 0;
    for (size_t at = 0; at < bytes; at += SHM_STAGE, piece++) {
        size_t n = bytes - at < SHM_STAGE ? bytes - at : SHM_STAGE;
        if (s->comm->rank == root) memcpy(shm_stage(s, root, piece), src + at, n);
        TRY(shm_meet(s));
        if (s->comm->rank != root) memcpy(dst + at, shm_stage(s, root, piece), n);
    }
    return TRINE_OK;
}

trine_status shm_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    shm_state *s = comm->shm;
    bool is_root = comm->rank == root;
    uint64_t call;
    if (!bytes) return TRINE_OK;
    shm_form f;
    TRY(shm_open_from(s, buf, bytes, root, &call, &f));
    if (f == SHM_FORM_STAGED)
        TRY(from_root_staged(s, buf, buf, bytes, root));
    else if (!is_root)
        memcpy(buf, shm_src_of(s, root, call), bytes);
    return shm_close_call(s, call, f);
}

static trine_status scatter_staged(shm_state *s, char *dst, const char *src, size_t part,
                                   int root) {
    size_t size = (size_t)s->comm->size, step = SHM_STAGE / size;
    uint64_t piece = 0;
    for (size_t at = 0; at < part; at += step, piece++) {
        size_t n = part - at < step ? part - at : step;
        for (size_t i = 0; s->comm->rank == root && i < size; i++)
            memcpy(shm_stage(s, root, piece) + i * step, src + i * part + at, n);
        TRY(shm_meet(s));
        memmove(dst + at, shm_stage(s, root, piece) + (size_t)s->comm->rank * step, n);
    }
    return TRINE_OK;
}

trine_status shm_scatter(trine_comm *comm, void *dst, const void *src, size_t part, int root) {
    shm_state *s = comm->shm;
    bool is_root = comm->rank == root;
    size_t whole = part * (size_t)comm->size, own = (size_t)comm->rank * part;
    uint64_t call;
    if (!part) return TRINE_OK;
    shm_form f;
    TRY(shm_open_from(s, src, whole, root, &call, &f));
    if (f == SHM_FORM_STAGED) {
        TRY(scatter_staged(s, dst, src, part, root));
    } else {
        const char *from = (is_root ? (const char *)src : shm_src_of(s, root, call)) + own;
        if (from != dst) memcpy(dst, from, part);
    }
    return shm_close_call(s, call, f);
}

static trine_status gather_to_root_staged(shm_state *s, char *dst, const char *src, size_t part,
                                          int root) {
    uint64_t piece = 0;
    for (size_t at = 0; at < part; at += SHM_STAGE, piece++) {
        size_t n = part - at < SHM_STAGE ? part - at : SHM_STAGE;
        memcpy(shm_stage(s, s->comm->rank, piece), src + at, n);
        TRY(shm_meet(s));
        for (int i = 0; s->comm->rank == root && i < s->comm->size; i++)
            memcpy(dst + (size_t)i * part + at, shm_stage(s, i, piece), n);
    }
    return TRINE_OK;
}

trine_status shm_gather(trine_comm *comm, void *dst, const void *src, size_t part, int root) {
    shm_state *s = comm->shm;
    uint64_t call;
    if (!part) return TRINE_OK;
    shm_form f;
    TRY(shm_open_to(s, src, part, root, &call, &f));
    if (f == SHM_FORM_STAGED)
        TRY(gather_to_root_staged(s, dst, src, part, root));
    else if (comm->rank == root)
        shm_copy_parts(s, &(comm_request){.dst = dst, .src = src, .bytes = part, .number = call});
    return shm_close_call(s, call, f);
}

/* Through the staging memory: what others read from it nobody overwrites, so dst may be src. */
static trine_status all_to_all_staged(shm_state *s, char *dst, const char *src, size_t part) {
    size_t size = (size_t)s->comm->size, rank = (size_t)s->comm->rank, step = SHM_STAGE / size;
    uint64_t piece = 0;
    for (size_t at = 0; at < part; at += step, piece++) {
        size_t n = part - at < step ? part - at : step;
        for (size_t i = 0; i < size; i++)
            memcpy(shm_stage(s, (int)rank, piece) + i * step, src + i * part + at, n);
        TRY(shm_meet(s));
        for (size_t i = 0; i < size; i++)
            memcpy(dst + i * part + at, shm_stage(s, (int)i, piece) + rank * step, n);
    }
    return TRINE_OK;
}

trine_status shm_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    shm_state *s = comm->shm;
    size_t size = (size_t)comm->size, own = (size_t)comm->rank * part;
    uint64_t call;
    if (!part) return TRINE_OK;
    /* In place nobody may read where another writes: as if it lay in no window. */
    const void *readable = dst == src && part * size > shm_payload_bytes(comm->size) ? NULL : src;
    TRY(shm_open_call(s, readable, part * size, NULL, 0, &call));
    shm_form f = shm_form_of(s, call, false);
    if (f == SHM_FORM_STAGED) {
        TRY(all_to_all_staged(s, dst, src, part));
        return shm_close_call(s, call, f);
    }
    for (int k = 0; k < comm->size; k++) {
        int i = (comm->rank + k) % comm->size;
        const char *from = (i == comm->rank ? (const char *)src : shm_src_of(s, i, call)) + own;
        char *to = (char *)dst + (size_t)i * part;
        if (to != from) memcpy(to, from, part);
    }
    return shm_close_call(s, call, f);
}

trine_status shm_barrier(trine_comm *comm) {
    shm_state *s = comm->shm;
    uint64_t call;
    TRY(shm_open_call(s, NULL, 0, NULL, 0, &call));
    return shm_close_call(s, call, SHM_FORM_PAYLOAD);
}
