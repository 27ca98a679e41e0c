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

trine_status tp_gather(const tp_region *r, const void **full, const void *x, size_t N, size_t C) {
    *full = r->full ? r->full : x;
    return r->full ? trine_all_gather(r->comm, r->full, x, N * C, r->dev->compute) : TRINE_OK;
}

trine_status tp_sum(const tp_region *r, void *own, size_t N, size_t C) {
    trine_dtype type = r->dev->compute;
    if (!r->full) return trine_all_reduce(r->comm, own, own, N * C, type, TRINE_SUM);
    return trine_reduce_scatter(r->comm, own, r->full, N * C, type, TRINE_SUM);
}
