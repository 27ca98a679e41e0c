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

static tp_vocab own_vocab(const tp_region *r, size_t V) {
    return tp_vocab_of(V, trine_comm_size(r->comm), trine_comm_rank(r->comm),
                       device_row_multiple(r->dev));
}

trine_status tp_embedding_forward(const tp_region *r, void *x, const void *table,
                                  const int32_t *tokens, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    TRY(d->ops->embedding_forward(d, tp_addend(r, x), table, tokens, (int32_t)own.first, N, C,
                                  own.valid));
    TRY(tp_sum(r, x, N, C));
    return TRINE_OK;
}

trine_status tp_embedding_backward(const tp_region *r, const param *table, const void *dx,
                                   const int32_t *tokens, size_t N, size_t C, size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    const void *full;
    TRY(tp_gather(r, &full, dx, N, C));
    TRY(d->ops->embedding_backward(d, table->dw, full, tokens, (int32_t)own.first, N, C, own.valid,
                                   table->mode));
    return TRINE_OK;
}

trine_status tp_logits_forward(const tp_region *r, void *logits, const param *table, const void *x,
                               size_t N, size_t C, size_t V) {
    device *d = r->dev;
    TRY(d->ops->linear_forward(d, logits, table->w, NULL, x, N, own_vocab(r, V).rows, C));
    return TRINE_OK;
}

trine_status tp_logits_gather(const tp_region *r, void *all, const void *logits, size_t N,
                              size_t V) {
    size_t tp = (size_t)trine_comm_size(r->comm);
    TRY(trine_all_gather(r->comm, all, logits, tp * N * own_vocab(r, V).rows, r->dev->compute));
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

/* Sums the ranks' denominators, which are relative to their own maxima, relative to the largest maximum. */
static trine_status combine(const tp_region *r, const tp_xent *x, size_t N) {
    device *d = r->dev;
    TRY(trine_all_reduce(r->comm, x->max, x->own, N, TRINE_F32, TRINE_MAX));
    TRY(d->ops->xent_rescale(d, x->sums, x->own, x->max, N));
    TRY(trine_all_reduce(r->comm, x->sums, x->sums, N * 2, TRINE_F32, TRINE_SUM));
    return TRINE_OK;
}

trine_status tp_xent_forward(const tp_region *r, double *loss, const tp_xent *x, const void *logits,
                             const int32_t *targets, double scale, size_t N, size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    bool split = trine_comm_size(r->comm) > 1;
    TRY(d->ops->xent_forward(d, split ? x->own : x->max, x->sums, logits, targets,
                             (int32_t)own.first, N, own.rows, own.valid));
    if (split) TRY(combine(r, x, N));
    TRY(d->ops->xent_loss(d, loss, x->max, x->sums, scale, N));
    return TRINE_OK;
}

trine_status tp_xent_backward(const tp_region *r, void *logits, const tp_xent *x,
                              const int32_t *targets, double scale, size_t N, size_t V) {
    device *d = r->dev;
    tp_vocab own = own_vocab(r, V);
    TRY(d->ops->xent_backward(d, logits, x->max, x->sums, targets, (int32_t)own.first, (float)scale,
                              N, own.rows, own.valid));
    return TRINE_OK;
}
