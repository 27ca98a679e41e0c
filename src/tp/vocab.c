#include "base/status.h"
#include "device/ops.h"
#include "tp/tp.h"

tp_vocab tp_vocab_of(size_t V, int tp, int tp_rank) {
    size_t rows = (V + (size_t)tp - 1) / (size_t)tp;
    size_t first = (size_t)tp_rank * rows;
    size_t left = first < V ? V - first : 0;
    return (tp_vocab){.first = first, .rows = rows, .valid = left < rows ? left : rows};
}

static tp_vocab own_vocab(const tp_region *r, size_t V) {
    return tp_vocab_of(V, trine_comm_size(r->comm), trine_comm_rank(r->comm));
}

trine_status tp_embedding_forward(const tp_region *r, void *x, const void *table,
                                  const int32_t *tokens, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    TRY(d->ops->embedding_forward(d, tp_addend(r, x), table, tokens, (int32_t)own.first, N, C,
                                  own.valid));
    TRY(tp_leave_forward(r, x, N, C));
    return TRINE_OK;
}

trine_status tp_embedding_backward(const tp_region *r, const param *table, const void *dx,
                                   const int32_t *tokens, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    const void *whole;
    TRY(tp_leave_backward(r, &whole, dx, N, C));
    TRY(d->ops->embedding_backward(d, table->dw, whole, tokens, (int32_t)own.first, N, C, own.valid,
                                   table->mode));
    return TRINE_OK;
}

trine_status tp_logits_forward(const tp_region *r, void *logits, const param *table, const void *x,
                               size_t N, size_t C, size_t V) {
    device *d = r->dev;
    TRY(d->ops->linear_forward(d, logits, table->w, NULL, x, N, own_vocab(r, V).rows, C));
    return TRINE_OK;
}

trine_status tp_logits_backward(const tp_region *r, void *x, const param *table,
                                const void *dlogits, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    size_t rows = own_vocab(r, V).rows;
    TRY(d->ops->linear_backward_weight(d, table->dw, NULL, dlogits, x, N, rows, C, table->mode));
    TRY(d->ops->linear_backward_input(d, x, table->w, dlogits, N, rows, C));
    return TRINE_OK;
}

trine_status tp_xent_forward(const tp_region *r, double *loss, float *max, float *sums,
                             const void *logits, const int32_t *targets, double scale, size_t N,
                             size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    TRY(d->ops->xent_max(d, max, logits, N, own.rows, own.valid));
    TRY(trine_all_reduce(r->comm, max, max, N, TRINE_F32, TRINE_MAX));
    TRY(d->ops->xent_sums(d, sums, logits, max, targets, (int32_t)own.first, N, own.rows,
                          own.valid));
    TRY(trine_all_reduce(r->comm, sums, sums, N * 2, TRINE_F32, TRINE_SUM));
    TRY(d->ops->xent_loss(d, loss, sums, scale, N));
    return TRINE_OK;
}

trine_status tp_xent_backward(const tp_region *r, void *logits, const float *max, const float *sums,
                              const int32_t *targets, double scale, size_t N, size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    TRY(d->ops->xent_backward(d, logits, max, sums, targets, (int32_t)own.first, (float)scale, N,
                              own.rows, own.valid));
    return TRINE_OK;
}
