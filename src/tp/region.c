#include "base/status.h"
#include "tp/tp.h"

tp_rows tp_rows_of(const tp_region *r, size_t N) {
    size_t tp = (size_t)trine_comm_size(r->comm);
    if (!r->full) return (tp_rows){0, N};
    ASSERT(N % tp == 0);
    return (tp_rows){(size_t)trine_comm_rank(r->comm) * (N / tp), N / tp};
}

void *tp_addend(const tp_region *r, void *sum) {
    return r->full ? r->full : sum;
}

static trine_status gather(const tp_region *r, const void **full, const void *own, size_t count) {
    *full = r->full ? r->full : own;
    return r->full ? trine_all_gather(r->comm, r->full, own, count, r->dev->compute) : TRINE_OK;
}

static trine_status sum(const tp_region *r, void *own, size_t count) {
    trine_dtype type = r->dev->compute;
    if (!r->full) return trine_all_reduce(r->comm, own, own, count, type, TRINE_SUM);
    return trine_reduce_scatter(r->comm, own, r->full, count, type, TRINE_SUM);
}

trine_status tp_enter_forward(const tp_region *r, const void **full, const void *x, size_t N,
                              size_t C) {
    TRY(gather(r, full, x, N * C));
    return TRINE_OK;
}

trine_status tp_leave_backward(const tp_region *r, const void **full, const void *dy, size_t N,
                               size_t C) {
    TRY(gather(r, full, dy, N * C));
    return TRINE_OK;
}

trine_status tp_enter_backward(const tp_region *r, void *dx, size_t N, size_t C) {
    TRY(sum(r, dx, N * C));
    return TRINE_OK;
}

trine_status tp_leave_forward(const tp_region *r, void *y, size_t N, size_t C) {
    TRY(sum(r, y, N * C));
    return TRINE_OK;
}
