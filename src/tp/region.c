#include "base/status.h"
#include "device/ops.h"
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
    return r->wide ? (void *)r->wide : r->full ? r->sum : sum;
}

static trine_dtype rank_type(const tp_region *r) {
    return r->wide ? TRINE_F32 : r->dev->compute;
}

void *tp_addend(const tp_region *r, void *sum, int p, size_t N, size_t C) {
    if (tp_parts(r) == 1) return rank_addend(r, sum);
    return (char *)r->addends + (size_t)p * N * C * trine_dtype_bytes(r->dev->compute);
}

trine_status tp_gather(const tp_region *r, const void **full, const void *x, size_t N, size_t C) {
    *full = r->full ? r->full : x;
    return r->full ? trine_all_gather(r->comm, r->full, x, N * C, r->dev->compute) : TRINE_OK;
}

trine_status tp_gather_start(const tp_region *r, const void **full, const void *x, size_t N,
                             size_t C, comm_request *request) {
    *full = r->full ? r->full : x;
    if (!r->full) return TRINE_OK;
    return comm_all_gather_start(r->comm, r->full, x, N * C, r->dev->compute, request);
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

/* Where the sum over ranks arrives: `own`, or this rank's rows of r->wide. */
static void *sum_place(const tp_region *r, void *own, size_t N, size_t C) {
    return r->wide ? r->wide + tp_rows_of(r, N).first * C : own;
}

/* own (R, C) = the rounded rows of r->wide, which is summed. */
static trine_status round_wide(const tp_region *r, void *own, size_t N, size_t C) {
    if (!r->wide) return TRINE_OK;
    return r->dev->ops->sum_parts(r->dev, own, false, sum_place(r, own, N, C), true, 1, 0,
                                  tp_rows_of(r, N).count * C);
}

/* NULL: waits for the sum. */
static trine_status sum_over_ranks(const tp_region *r, void *own, size_t N, size_t C,
                                   comm_request *request) {
    void *to = sum_place(r, own, N, C);
    const void *from = rank_addend(r, own);
    trine_dtype type = rank_type(r);
    trine_reduction sum = r->tree ? TRINE_SUM_TREE : TRINE_SUM;
    if (r->full && request)
        return comm_reduce_scatter_start(r->comm, to, from, N * C, type, sum, request);
    if (r->full) return trine_reduce_scatter(r->comm, to, from, N * C, type, sum);
    if (request) return comm_all_reduce_start(r->comm, to, from, N * C, type, sum, request);
    return trine_all_reduce(r->comm, to, from, N * C, type, sum);
}

trine_status tp_sum_ranks(const tp_region *r, void *own, size_t N, size_t C) {
    TRY(sum_over_ranks(r, own, N, C, NULL));
    return round_wide(r, own, N, C);
}

trine_status tp_sum(const tp_region *r, void *own, size_t N, size_t C) {
    TRY(tp_sum_parts(r, own, 0, N, C));
    return tp_sum_ranks(r, own, N, C);
}

trine_status tp_sum_start(const tp_region *r, void *own, size_t N, size_t C,
                          comm_request *request) {
    TRY(tp_sum_parts(r, own, 0, N, C));
    return sum_over_ranks(r, own, N, C, request);
}

trine_status tp_sum_finish(const tp_region *r, void *own, size_t N, size_t C,
                           comm_request *request) {
    TRY(comm_wait(request));
    return round_wide(r, own, N, C);
}
