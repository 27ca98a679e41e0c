#include "base/status.h"
#include "device/ops.h"
#include "tp/tp.h"

tp_vocab tp_vocab_of(size_t V, int tp, int tp_rank, size_t multiple) {
    size_t each = (V + (size_t)tp - 1) / (size_t)tp;
    size_t rows = (each + multiple - 1) / multiple * multiple;
    size_t first = (size_t)tp_rank * rows;
    size_t left = first < V ? V - first : 0;
    return (tp_vocab){.first = first, .rows = rows, .valid = left < rows ? left : rows};
}

/* The rows of part p of this rank. */
static tp_vocab own_vocab(const tp_region *r, size_t V, int p) {
    return tp_vocab_of(V, tp_size(r), tp_first(r) + p, device_row_multiple(r->dev));
}

/* Block p of logits (P, N, Vp/tp). */
static void *block(const tp_region *r, const void *logits, int p, size_t N, size_t rows) {
    return (char *)logits + (size_t)p * N * rows * trine_dtype_bytes(r->dev->compute);
}

trine_status tp_embedding_forward(const tp_region *r, void *x, const param *table,
                                  const int32_t *tokens, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    for (int p = 0; p < tp_parts(r); p++) {
        tp_vocab own = own_vocab(r, V, p);
        TRY(d->ops->embedding_forward(d, tp_addend(r, x, p, N, C), tp_w(r, table, p), tokens,
                                      (int32_t)own.first, N, C, own.valid));
    }
    TRY(tp_sum(r, x, N, C));
    return TRINE_OK;
}

trine_status tp_embedding_backward(const tp_region *r, const param *table, const void *dx,
                                   const int32_t *tokens, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    const void *full;
    if (!table->dw) return TRINE_OK;
    TRY(tp_gather(r, &full, dx, N, C));
    for (int p = 0; p < tp_parts(r); p++) {
        tp_vocab own = own_vocab(r, V, p);
        TRY(d->ops->embedding_backward(d, tp_dw(r, table, p), full, tokens, (int32_t)own.first, N,
                                       C, own.valid, table->mode));
    }
    return TRINE_OK;
}

trine_status tp_logits_forward(const tp_region *r, void *logits, const param *table, const void *x,
                               size_t N, size_t C, size_t V) {
    device *d = r->dev;
    size_t rows = own_vocab(r, V, 0).rows;
    for (int p = 0; p < tp_parts(r); p++)
        TRY(d->ops->linear_forward(d, block(r, logits, p, N, rows), tp_w(r, table, p), NULL, x, N,
                                   rows, C));
    return TRINE_OK;
}

trine_status tp_logits_gather(const tp_region *r, void *all, const void *logits, size_t N,
                              size_t V) {
    size_t tp = (size_t)trine_comm_size(r->comm);
    ASSERT(tp_parts(r) == 1);
    TRY(trine_all_gather(r->comm, all, logits, tp * N * own_vocab(r, V, 0).rows, r->dev->compute));
    return TRINE_OK;
}

/* Part p's addend of rows [at, at + N) of the sum whose result is x. */
static void *addend_rows(const tp_region *r, void *x, int p, size_t at, size_t N, size_t C) {
    char *addend = tp_addend(r, x, p, N, C);
    return tp_parts(r) == 1 ? addend + at * C * trine_dtype_bytes(r->dev->compute) : addend;
}

/* The addends may replace x, so products with x come first. */
trine_status tp_logits_backward(const tp_region *r, void *x, size_t at, const param *table,
                                const void *dlogits, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    size_t rows = own_vocab(r, V, 0).rows;
    void *full = tp_full_row(r, x, at, C);
    for (int p = 0; p < tp_parts(r) && table->dw; p++)
        TRY(d->ops->linear_backward_weight(d, tp_dw(r, table, p), NULL,
                                           block(r, dlogits, p, N, rows), full, N, rows, C,
                                           table->mode));
    for (int p = 0; p < tp_parts(r); p++)
        TRY(d->ops->linear_backward_input(d, addend_rows(r, x, p, at, N, C), tp_w(r, table, p),
                                          block(r, dlogits, p, N, rows), N, rows, C));
    return tp_sum_parts(r, x, at, N, C);
}

/* Replaces own (P, N) by the maximum of the parts: own (N). */
static trine_status largest(const tp_region *r, const tp_xent *x, size_t N) {
    if (tp_parts(r) == 1) return TRINE_OK;
    return r->dev->ops->xent_max(r->dev, x->max, x->own, (size_t)tp_parts(r), N);
}

/* Sums the parts' denominators, which are relative to their own maxima, relative to the largest maximum. */
static trine_status combine(const tp_region *r, const tp_xent *x, size_t N) {
    device *d = r->dev;
    int parts = tp_parts(r);
    const float *own = parts == 1 ? x->own : x->max;
    TRY(largest(r, x, N));
    TRY(trine_all_reduce(r->comm, x->max, own, N, TRINE_F32, TRINE_MAX));
    for (int p = 0; p < parts; p++)
        TRY(d->ops->xent_rescale(d, x->sums + (size_t)p * 2 * N, x->own + (size_t)p * N, x->max,
                                 N));
    if (parts > 1)
        TRY(d->ops->sum_parts(d, x->sums, true, x->sums, true, (size_t)parts, 2 * N, 2 * N));
    TRY(trine_all_reduce(r->comm, x->sums, x->sums, N * 2, TRINE_F32,
                         r->tree ? TRINE_SUM_TREE : TRINE_SUM));
    return TRINE_OK;
}

trine_status tp_xent_forward(const tp_region *r, double *loss, const tp_xent *x, const void *logits,
                             const int32_t *targets, double scale, size_t N, size_t V) {
    device *d = r->dev;
    bool split = tp_size(r) > 1;
    for (int p = 0; p < tp_parts(r); p++) {
        tp_vocab own = own_vocab(r, V, p);
        float *max = split ? x->own + (size_t)p * N : x->max;
        TRY(d->ops->xent_forward(d, max, x->sums + (size_t)p * 2 * N,
                                 block(r, logits, p, N, own.rows), targets, (int32_t)own.first, N,
                                 own.rows, own.valid));
    }
    if (split) TRY(combine(r, x, N));
    TRY(d->ops->xent_loss(d, loss, x->max, x->sums, targets, scale, N));
    return TRINE_OK;
}

trine_status tp_xent_backward(const tp_region *r, void *logits, const tp_xent *x,
                              const int32_t *targets, double scale, size_t N, size_t V) {
    device *d = r->dev;
    for (int p = 0; p < tp_parts(r); p++) {
        tp_vocab own = own_vocab(r, V, p);
        TRY(d->ops->xent_backward(d, block(r, logits, p, N, own.rows), x->max, x->sums, targets,
                                  (int32_t)own.first, (float)scale, N, own.rows, own.valid));
    }
    return TRINE_OK;
}
