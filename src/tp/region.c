#include "base/status.h"
#include "tp/tp.h"

tp_rows tp_rows_of(const tp_region *r, size_t N) {
    size_t tp = (size_t)trine_comm_size(r->comm);
    if (!r->whole) return (tp_rows){0, N};
    ASSERT(N % tp == 0);
    return (tp_rows){(size_t)trine_comm_rank(r->comm) * (N / tp), N / tp};
}

void *tp_addend(const tp_region *r, void *sum) {
    return r->whole ? r->whole : sum;
}

static trine_status gather(const tp_region *r, const void **whole, const void *own, size_t count) {
    *whole = r->whole ? r->whole : own;
    return r->whole ? trine_all_gather(r->comm, r->whole, own, count, r->dev->compute) : TRINE_OK;
}

static trine_status sum(const tp_region *r, void *own, size_t count) {
    trine_dtype type = r->dev->compute;
    if (!r->whole) return trine_all_reduce(r->comm, own, own, count, type, TRINE_SUM);
    return trine_reduce_scatter(r->comm, own, r->whole, count, type, TRINE_SUM);
}

trine_status tp_enter_forward(const tp_region *r, const void **whole, const void *x, size_t N,
                              size_t C) {
    TRY(gather(r, whole, x, N * C));
    return TRINE_OK;
}

trine_status tp_leave_backward(const tp_region *r, const void **whole, const void *dy, size_t N,
                               size_t C) {
    TRY(gather(r, whole, dy, N * C));
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
