#include "base/status.h"
#include "device/ops.h"
#include "tp/tp.h"

static size_t share(const tp_region *r, size_t features) {
    size_t tp = (size_t)trine_comm_size(r->comm);
    ASSERT(features % tp == 0);
    return features / tp;
}

/* Whether a row-parallel matmul needs no sum over tp. */
static bool alone(const tp_region *r) {
    return trine_comm_size(r->comm) == 1;
}

trine_status tp_column_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                               size_t N, size_t O, size_t I) {
    device *d = r->dev;
    const void *full;
    TRY(tp_gather(r, &full, x, N, I));
    TRY(d->ops->linear_forward(d, y, l->weight.w, l->bias.w, full, N, share(r, O), I));
    return TRINE_OK;
}

trine_status tp_column_backward_input(const tp_region *r, void *dx, const tp_linear *l,
                                      const void *dy, size_t N, size_t O, size_t I) {
    device *d = r->dev;
    TRY(d->ops->linear_backward_input(d, tp_addend(r, dx), l->weight.w, dy, N, share(r, O), I));
    return tp_sum(r, dx, N, I);
}

trine_status tp_column_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                       const void *x, size_t N, size_t O, size_t I) {
    device *d = r->dev;
    const void *full;
    TRY(tp_gather(r, &full, x, N, I));
    return d->ops->linear_backward_weight(d, l->weight.dw, l->bias.dw, dy, full, N, share(r, O), I,
                                          l->weight.mode);
}

/* The addend of dx in r->full has been summed before x is gathered there. */
trine_status tp_column_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                const void *x, size_t N, size_t O, size_t I) {
    TRY(tp_column_backward_input(r, dx, l, dy, N, O, I));
    return tp_column_backward_weight(r, l, dy, x, N, O, I);
}

trine_status tp_row_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                            const void *residual, const dropout_args *drop, size_t N, size_t O,
                            size_t I) {
    device *d = r->dev;
    size_t rows = tp_rows_of(r, N).count;
    if (alone(r) && !drop && residual && d->ops->linear_residual)
        return d->ops->linear_residual(d, y, l->weight.w, l->bias.w, residual, x, N, O, I);
    TRY(d->ops->linear_forward(d, tp_addend(r, y), l->weight.w, NULL, x, N, O, share(r, I)));
    TRY(tp_sum(r, y, N, O));
    /* After the sum: a bias inside the addends would be counted tp times. */
    if (drop) return d->ops->dropout_residual(d, y, l->bias.w, residual, drop, rows, O);
    TRY(d->ops->bias_residual(d, y, l->bias.w, residual, rows, O));
    return TRINE_OK;
}

/* `full` is dy (N, O). */
static trine_status row_input(const tp_region *r, void *dx, const tp_linear *l, const void *full,
                              size_t N, size_t O, size_t I) {
    return r->dev->ops->linear_backward_input(r->dev, dx, l->weight.w, full, N, O, share(r, I));
}

static trine_status row_weight(const tp_region *r, const tp_linear *l, const void *full,
                               const void *x, size_t N, size_t O, size_t I) {
    return r->dev->ops->linear_backward_weight(r->dev, l->weight.dw, l->bias.dw, full, x, N, O,
                                               share(r, I), l->weight.mode);
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
