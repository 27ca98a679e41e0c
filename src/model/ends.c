/* The two ends of the model: tokens to the residual stream, and the stream to the loss. */
#include "base/status.h"
#include "device/ops.h"
#include "model/block.h"
#include "model/layer.h"

trine_status embedding_forward(const gpt_run *r, const gpt_embedding *e, void *x,
                               const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    TRY(tp_embedding_forward(r->tp, x, e->token.w, batch->tokens, s->B * s->T, s->C, s->V));
    /* After the sum over tp, which would count the positions tp times. */
    TRY(r->dev->ops->position_forward(r->dev, x, e->position.w, 0, s->B * s->T, s->T, s->C));
    return TRINE_OK;
}

trine_status embedding_backward(const gpt_run *r, const gpt_embedding *e, const void *dx,
                                const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->position_backward(r->dev, e->position.dw, dx, 0, s->B * s->T, s->T, s->C,
                                       e->position.mode));
    TRY(tp_embedding_backward(r->tp, &e->token, dx, batch->tokens, s->B * s->T, s->C, s->V));
    return TRINE_OK;
}

/* Logits are one more column-parallel linear, over the padded vocabulary. */
static size_t padded_vocab(const gpt_shape *s) {
    return tp_vocab_of(s->V, s->tp, s->tp_rank).rows * (size_t)s->tp;
}

trine_status head_forward(const gpt_run *r, const gpt_head *h, const gpt_head_acts *a,
                          const void *x, const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    tp_linear logits = {.weight = h->token};
    size_t N = s->B * s->T, Vp = padded_vocab(s);
    TRY(norm_forward(r, a->norm, a->stat, &h->norm, x));
    TRY(tp_column_forward(r->tp, a->logits, &logits, a->norm, N, Vp, s->C)); /* (N, Vp/tp) */
    TRY(tp_xent_forward(r->tp, batch->loss, a->max, a->sums, a->logits, batch->targets,
                        batch->scale, N, s->V));
    return TRINE_OK;
}

trine_status head_backward(const gpt_run *r, const gpt_head *h, const gpt_head_acts *a, void *dx,
                           const void *x, const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    tp_linear logits = {.weight = h->token};
    size_t N = s->B * s->T, Vp = padded_vocab(s);
    void *dnorm = r->scratch.stream; /* (N, C) */
    TRY(tp_xent_backward(r->tp, a->logits, a->max, a->sums, batch->targets, batch->grad_scale, N,
                         s->V));
    TRY(tp_column_backward(r->tp, dnorm, &logits, a->logits, a->norm, N, Vp, s->C));
    TRY(norm_backward(r, dx, &h->norm, dnorm, x, a->stat, GRAD_SET));
    return TRINE_OK;
}
