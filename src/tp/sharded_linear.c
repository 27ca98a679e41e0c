#include "base/status.h"
#include "device/ops.h"
#include "tp/adapter.h"

static size_t share(const tp_region *r, size_t features) {
    size_t tp = (size_t)tp_size(r);
    ASSERT(features % tp == 0);
    return features / tp;
}

/* Block p of values (P, N, C) inside the region. */
static void *block(const tp_region *r, const void *values, int p, size_t N, size_t C) {
    return (char *)values + (size_t)p * N * C * trine_dtype_bytes(r->dev->compute);
}

/* Which gradients are wanted: of the weight or of an adapter beside it, for which A reads the input; of anything. */
static bool wants_input(const tp_linear *l) {
    bool wants = l->weight.dw != NULL;
    for (int n = 0; l->lora && n < l->lora->count; n++) wants |= l->lora->of[n].a.dw != NULL;
    return wants;
}

static bool wants_any(const tp_linear *l) {
    bool wants = wants_input(l) || l->bias.dw;
    for (int n = 0; l->lora && n < l->lora->count; n++) wants |= l->lora->of[n].b.dw != NULL;
    return wants;
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
    return l->lora ? tp_adapt_column(r, y, l->lora, full, N, own, I) : TRINE_OK;
}

/* This rank's addends of dx. */
static trine_status column_input(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                 size_t N, size_t O, size_t I) {
    device *d = r->dev;
    size_t own = share(r, O);
    for (int p = 0; p < tp_parts(r); p++)
        TRY(d->ops->linear_backward_input(d, tp_addend(r, dx, p, N, I), tp_w(r, &l->weight, p),
                                          block(r, dy, p, N, own), N, own, I));
    return l->lora ? tp_adapt_column_input(r, dx, l->lora, dy, N, own, I) : TRINE_OK;
}

/* Gradients of a weight (O, I) and its bias; NULL: it is frozen, or there is none. */
static trine_status weight_grads(device *d, void *dw, void *dbias, const void *dy, const void *x,
                                 size_t N, size_t O, size_t I, grad_mode mode) {
    if (dw) return d->ops->linear_backward_weight(d, dw, dbias, dy, x, N, O, I, mode);
    return dbias ? d->ops->bias_backward(d, dbias, dy, N, O, mode) : TRINE_OK;
}

/* `full` is x (N, I). */
static trine_status column_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                  const void *full, size_t N, size_t O, size_t I) {
    device *d = r->dev;
    size_t own = share(r, O);
    for (int p = 0; p < tp_parts(r); p++)
        TRY(weight_grads(d, tp_dw(r, &l->weight, p), tp_dw(r, &l->bias, p), block(r, dy, p, N, own),
                         full, N, own, I, l->weight.mode));
    return l->lora ? tp_adapt_column_weight(r, l->lora, dy, full, N, own, I) : TRINE_OK;
}

trine_status tp_column_backward_input(const tp_region *r, void *dx, const tp_linear *l,
                                      const void *dy, size_t N, size_t O, size_t I) {
    TRY(column_input(r, dx, l, dy, N, O, I));
    return tp_sum(r, dx, N, I);
}

trine_status tp_column_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                       const void *x, size_t N, size_t O, size_t I) {
    const void *full = NULL;
    if (wants_input(l)) TRY(tp_gather(r, &full, x, N, I));
    return column_weight(r, l, dy, full, N, O, I);
}

trine_status tp_column_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                const void *x, size_t N, size_t O, size_t I) {
    comm_request gather = {0}, sum = {0};
    const void *full = NULL;
    ASSERT(!r->full || r->sum != r->full);
    if (wants_input(l)) TRY(tp_gather_start(r, &full, x, N, I, &gather));
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
    if (alone(r) && !drop && residual && d->ops->linear_residual) {
        TRY(d->ops->linear_residual(d, y, l->weight.w, l->bias.w, residual, x, N, O, I));
        return l->lora ? tp_adapt_row(r, y, 0, l->lora, x, N, O, own) : TRINE_OK;
    }
    for (int p = 0; p < tp_parts(r); p++) {
        void *addend = tp_addend(r, y, p, N, O);
        TRY(d->ops->linear_forward(d, addend, tp_w(r, &l->weight, p), NULL, block(r, x, p, N, own),
                                   N, O, own));
        if (l->lora) TRY(tp_adapt_row(r, addend, p, l->lora, x, N, O, own));
    }
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
    return l->lora ? tp_adapt_row_input(r, dx, l->lora, full, N, O, own) : TRINE_OK;
}

/* All parts have the same dbias: the first computes it. */
static trine_status row_weight(const tp_region *r, const tp_linear *l, const void *full,
                               const void *x, size_t N, size_t O, size_t I) {
    device *d = r->dev;
    size_t own = share(r, I);
    void *dbias = tp_dw(r, &l->bias, 0);
    for (int p = 0; p < tp_parts(r); p++) {
        TRY(weight_grads(d, tp_dw(r, &l->weight, p), p ? NULL : dbias, full, block(r, x, p, N, own),
                         N, O, own, l->weight.mode));
        if (p && dbias)
            device_copy(d, tp_dw(r, &l->bias, p), dbias, O * trine_dtype_bytes(d->grads));
    }
    return TRINE_OK;
}

/* Reads what row_input leaves. */
static trine_status row_adapters(const tp_region *r, const tp_linear *l, const void *full,
                                 const void *x, size_t N, size_t O, size_t I) {
    return l->lora ? tp_adapt_row_weight(r, l->lora, full, x, N, O, share(r, I)) : TRINE_OK;
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
    if (!wants_any(l)) return TRINE_OK;
    TRY(tp_gather(r, &full, dy, N, O));
    TRY(row_weight(r, l, full, x, N, O, I));
    return row_adapters(r, l, full, x, N, O, I);
}

trine_status tp_row_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                             const void *x, size_t N, size_t O, size_t I) {
    const void *full;
    TRY(tp_gather(r, &full, dy, N, O));
    TRY(row_weight(r, l, full, x, N, O, I));
    TRY(row_input(r, dx, l, full, N, O, I));
    return row_adapters(r, l, full, x, N, O, I);
}
