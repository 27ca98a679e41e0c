#include "base/status.h"
#include "tp/tp.h"

int tp_parts(const tp_region *r) {
    return r->parts ? r->parts : 1;
}

int tp_size(const tp_region *r) {
    return trine_comm_size(r->comm) * tp_parts(r);
}

int tp_first(const tp_region *r) {
    return trine_comm_rank(r->comm) * tp_parts(r);
}

const void *tp_w(const tp_region *r, const param *q, int p) {
    if (!q->w) return NULL;
    return (const char *)q->w + (size_t)p * q->w_part * trine_dtype_bytes(r->dev->compute);
}

void *tp_dw(const tp_region *r, const param *q, int p) {
    if (!q->dw) return NULL;
    return (char *)q->dw + (size_t)p * q->dw_part * trine_dtype_bytes(r->dev->grads);
}

tp_rows tp_rows_of(const tp_region *r, size_t N) {
    size_t tp = (size_t)trine_comm_size(r->comm);
    if (!r->full) return (tp_rows){0, N};
    ASSERT(N % tp == 0);
    return (tp_rows){(size_t)trine_comm_rank(r->comm) * (N / tp), N / tp};
}

/* Where this rank's addend of a sum over ranks lies, and its type. */
static void *rank_addend(const tp_region *r, void *sum) {
    return r->wide ? (void *)r->wide : r->full ? r->full : sum;
}

static trine_dtype rank_type(const tp_region *r) {
    return r->wide ? TRINE_F32 : r->dev->compute;
}

void *tp_addend(const tp_region *r, void *sum, int p, size_t N, size_t C) {
    if (tp_parts(r) == 1) return r->full ? r->full : sum;
    return (char *)r->addends + (size_t)p * N * C * trine_dtype_bytes(r->dev->compute);
}

trine_status tp_gather(const tp_region *r, const void **full, const void *x, size_t N, size_t C) {
    *full = r->full ? r->full : x;
    return r->full ? trine_all_gather(r->comm, r->full, x, N * C, r->dev->compute) : TRINE_OK;
}

void *tp_full_row(const tp_region *r, void *x, size_t at, size_t C) {
    return (char *)(r->full ? r->full : x) + at * C * trine_dtype_bytes(r->dev->compute);
}

trine_status tp_sum_parts(const tp_region *r, void *own, size_t at, size_t n, size_t C) {
    if (tp_parts(r) == 1) return TRINE_OK;
    char *to = (char *)rank_addend(r, own) + at * C * trine_dtype_bytes(rank_type(r));
    return r->dev->ops->sum_parts(r->dev, to, r->wide != NULL, r->addends, false,
                                  (size_t)tp_parts(r), n * C, n * C);
}

/* own (R, C) = the rounded rows of r->wide, which is summed. */
static trine_status sum_wide(const tp_region *r, void *own, size_t N, size_t C) {
    tp_rows rows = tp_rows_of(r, N);
    float *at = r->wide + rows.first * C;
    if (r->full)
        TRY(trine_reduce_scatter(r->comm, at, r->wide, N * C, TRINE_F32, TRINE_SUM_TREE));
    else
        TRY(trine_all_reduce(r->comm, at, at, N * C, TRINE_F32, TRINE_SUM_TREE));
    return r->dev->ops->sum_parts(r->dev, own, false, at, true, 1, 0, rows.count * C);
}

trine_status tp_sum_ranks(const tp_region *r, void *own, size_t N, size_t C) {
    trine_dtype type = r->dev->compute;
    trine_reduction sum = r->tree ? TRINE_SUM_TREE : TRINE_SUM;
    if (r->wide) return sum_wide(r, own, N, C);
    if (!r->full) return trine_all_reduce(r->comm, own, own, N * C, type, sum);
    return trine_reduce_scatter(r->comm, own, r->full, N * C, type, sum);
}

trine_status tp_sum(const tp_region *r, void *own, size_t N, size_t C) {
    TRY(tp_sum_parts(r, own, 0, N, C));
    return tp_sum_ranks(r, own, N, C);
}
