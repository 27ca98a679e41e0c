#include "base/status.h"
#include "device/ops.h"
#include "tp/tp.h"

static size_t share(const tp_region *r, size_t features) {
    size_t tp = (size_t)tp_size(r);
    ASSERT(features % tp == 0);
    return features / tp;
}

/* Block p of values (P, N, C) inside the region. */
static void *block(const tp_region *r, const void *values, int p, size_t N, size_t C) {
    return (char *)values + (size_t)p * N * C * trine_dtype_bytes(r->dev->compute);
}

/* Whether a row-parallel matmul needs no sum over tp. */
static bool alone(const tp_region *r) {
    return tp_size(r) == 1;
}

trine_status tp_column_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                               size_t N, size_t O, size_t I) {
    device *d = r->dev;
    const void *full;
    size_t own = share(r, O);
    TRY(tp_gather(r, &full, x, N, I));
    for (int p = 0; p < tp_parts(r); p++)
        TRY(d->ops->linear_forward(d, block(r, y, p, N, own), tp_w(r, &l->weight, p),
                                   tp_w(r, &l->bias, p), full, N, own, I));
    return TRINE_OK;
}

/* This rank's addends of dx. */
static trine_status column_input(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                 size_t N, size_t O, size_t I) {
    device *d = r->dev;
    size_t own = share(r, O);
    for (int p = 0; p < tp_parts(r); p++)
        TRY(d->ops->linear_backward_input(d, tp_addend(r, dx, p, N, I), tp_w(r, &l->weight, p),
                                          block(r, dy, p, N, own), N, own, I));
    return TRINE_OK;
}

/* `full` is x (N, I). */
static trine_status column_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                  const void *full, size_t N, size_t O, size_t I) {
    device *d = r->dev;
    size_t own = share(r, O);
    for (int p = 0; p < tp_parts(r); p++)
        TRY(d->ops->linear_backward_weight(d, tp_dw(r, &l->weight, p), tp_dw(r, &l->bias, p),
                                           block(r, dy, p, N, own), full, N, own, I,
                                           l->weight.mode));
    return TRINE_OK;
}

trine_status tp_column_backward_input(const tp_region *r, void *dx, const tp_linear *l,
                                      const void *dy, size_t N, size_t O, size_t I) {
    TRY(column_input(r, dx, l, dy, N, O, I));
    return tp_sum(r, dx, N, I);
}

trine_status tp_column_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                       const void *x, size_t N, size_t O, size_t I) {
    const void *full;
    TRY(tp_gather(r, &full, x, N, I));
    return column_weight(r, l, dy, full, N, O, I);
}

trine_status tp_column_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                const void *x, size_t N, size_t O, size_t I) {
    comm_request gather = {0}, sum = {0};
    const void *full;
    ASSERT(!r->full || r->sum != r->full);
    TRY(tp_gather_start(r, &full, x, N, I, &gather));
    TRY(column_input(r, dx, l, dy, N, O, I));
    TRY(tp_sum_start(r, dx, N, I, &sum));
    TRY(comm_wait(&gather));
    TRY(column_weight(r, l, dy, full, N, O, I));
    return tp_sum_finish(r, dx, N, I, &sum);
}

trine_status tp_row_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                            const void *residual, const dropout_args *drop, size_t N, size_t O,
                            size_t I) {
    device *d = r->dev;
    size_t rows = tp_rows_of(r, N).count, own = share(r, I);
    if (alone(r) && !drop && residual && d->ops->linear_residual)
        return d->ops->linear_residual(d, y, l->weight.w, l->bias.w, residual, x, N, O, I);
    for (int p = 0; p < tp_parts(r); p++)
        TRY(d->ops->linear_forward(d, tp_addend(r, y, p, N, O), tp_w(r, &l->weight, p), NULL,
                                   block(r, x, p, N, own), N, O, own));
    TRY(tp_sum(r, y, N, O));
    /* After the sum: a bias inside the addends would be counted tp times. */
    if (drop) return d->ops->dropout_residual(d, y, l->bias.w, residual, drop, rows, O);
    TRY(d->ops->bias_residual(d, y, l->bias.w, residual, rows, O));
    return TRINE_OK;
}

/* `full` is dy (N, O). */
static trine_status row_input(const tp_region *r, void *dx, const tp_linear *l, const void *full,
                              size_t N, size_t O, size_t I) {
    size_t own = share(r, I);
    for (int p = 0; p < tp_parts(r); p++)
        TRY(r->dev->ops->linear_backward_input(r->dev, block(r, dx, p, N, own),
                                               tp_w(r, &l->weight, p), full, N, O, own));
    return TRINE_OK;
}

/* All parts have the same dbias: the first computes it. */
static trine_status row_weight(const tp_region *r, const tp_linear *l, const void *full,
                               const void *x, size_t N, size_t O, size_t I) {
    device *d = r->dev;
    size_t own = share(r, I);
    void *dbias = tp_dw(r, &l->bias, 0);
    for (int p = 0; p < tp_parts(r); p++) {
        TRY(d->ops->linear_backward_weight(d, tp_dw(r, &l->weight, p), p ? NULL : dbias, full,
                                           block(r, x, p, N, own), N, O, own, l->weight.mode));
        if (p && dbias)
            device_copy(d, tp_dw(r, &l->bias, p), dbias, O * trine_dtype_bytes(d->grads));
    }
    return TRINE_OK;
}

trine_status tp_row_backward_input(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                   size_t N, size_t O, size_t I) {
    const void *full;
    TRY(tp_gather(r, &full, dy, N, O));
    return row_input(r, dx, l, full, N, O, I);
}

trine_status tp_row_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                    const void *x, size_t N, size_t O, size_t I) {
    const void *full;
    TRY(tp_gather(r, &full, dy, N, O));
    return row_weight(r, l, full, x, N, O, I);
}

trine_status tp_row_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                             const void *x, size_t N, size_t O, size_t I) {
    const void *full;
    TRY(tp_gather(r, &full, dy, N, O));
    TRY(row_weight(r, l, full, x, N, O, I));
    return row_input(r, dx, l, full, N, O, I);
}
