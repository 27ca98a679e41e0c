/* The two ends of the model: tokens to the residual stream, and the stream to the loss. */
#include "base/status.h"
#include "device/ops.h"
#include "model/block.h"
#include "model/layer.h"

/* ---- Embedding ------------------------------------------------------------------------------- */

trine_status embedding_forward(const gpt_run *r, const gpt_unit *u, void *x,
                               const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    const gpt_embedding *e = &u->embedding;
    tp_rows own = gpt_rows(s);
    dropout_args args;
    const dropout_args *drop = dropout_of(r, DROP_EMBEDDING, u->index, batch, &args);
    TRY(tp_embedding_forward(r->tp, x, e->token.w, batch->tokens, s->B * s->T, s->C, s->V));
    /* After the sum over tp, which would count the positions tp times. */
    TRY(r->dev->ops->position_forward(r->dev, x, e->position.w, own.first, own.count, s->T, s->C));
    if (drop) TRY(r->dev->ops->dropout(r->dev, x, x, drop, own.count, s->C));
    return TRINE_OK;
}

trine_status embedding_backward(const gpt_run *r, const gpt_unit *u, void *dx,
                                const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    const gpt_embedding *e = &u->embedding;
    tp_rows own = gpt_rows(s);
    dropout_args args;
    const dropout_args *drop = dropout_of(r, DROP_EMBEDDING, u->index, batch, &args);
    if (drop) TRY(r->dev->ops->dropout(r->dev, dx, dx, drop, own.count, s->C));
    TRY(r->dev->ops->position_backward(r->dev, e->position.dw, dx, own.first, own.count, s->T, s->C,
                                       e->position.mode));
    TRY(tp_embedding_backward(r->tp, &e->token, dx, batch->tokens, s->B * s->T, s->C, s->V));
    return TRINE_OK;
}

/* ---- Head: rows [at, at + n) of the whole micro-batch at a time ------------------------------- */

typedef struct {
    size_t at, n;
} chunk;

static chunk chunk_at(const gpt_shape *s, size_t at) {
    size_t N = s->B * s->T, K = gpt_loss_rows(s);
    return (chunk){at, N - at < K ? N - at : K};
}

/* norm (N, C) whole, in r->scratch.stream or the region's `whole`. */
static trine_status enter_head(const gpt_run *r, const gpt_head *h, const void *x) {
    const gpt_shape *s = r->shape;
    const void *whole;
    TRY(norm_forward(r, r->scratch.stream, r->scratch.head.stat, &h->norm, x));
    return tp_enter_forward(r->tp, &whole, r->scratch.stream, s->B * s->T, s->C);
}

static void *row_of(const gpt_run *r, size_t row) {
    char *whole = tp_addend(r->tp, r->scratch.stream);
    return whole + row * r->shape->C * trine_dtype_bytes(r->dev->compute);
}

static trine_status chunk_loss(const gpt_run *r, const gpt_head *h, const gpt_batch *batch,
                               chunk c) {
    const gpt_shape *s = r->shape;
    const gpt_head_acts *a = &r->scratch.head;
    TRY(tp_logits_forward(r->tp, a->logits, &h->token, row_of(r, c.at), c.n, s->C, s->V));
    return tp_xent_forward(r->tp, batch->loss, &a->xent, a->logits, batch->targets + c.at,
                           batch->scale, c.n, s->V);
}

/* The chunk's rows turn from the norm's output into this rank's addend of its gradient. */
static trine_status chunk_backward(const gpt_run *r, const gpt_head *h, const gpt_batch *batch,
                                   chunk c) {
    const gpt_shape *s = r->shape;
    const gpt_head_acts *a = &r->scratch.head;
    param token = h->token;
    if (c.at > 0) token.mode = GRAD_ADD;
    TRY(tp_xent_backward(r->tp, a->logits, &a->xent, batch->targets + c.at, batch->grad_scale, c.n,
                         s->V));
    return tp_logits_backward(r->tp, row_of(r, c.at), &token, a->logits, c.n, s->C, s->V);
}

trine_status head_loss(const gpt_run *r, const gpt_head *h, const void *x, const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    TRY(enter_head(r, h, x));
    for (size_t at = 0; at < s->B * s->T; at += gpt_loss_rows(s))
        TRY(chunk_loss(r, h, batch, chunk_at(s, at)));
    return TRINE_OK;
}

trine_status head_backward(const gpt_run *r, const gpt_head *h, void *dx, const void *x,
                           const gpt_batch *batch) {
    const gpt_shape *s = r->shape;
    TRY(enter_head(r, h, x));
    for (size_t at = 0; at < s->B * s->T; at += gpt_loss_rows(s)) {
        TRY(chunk_loss(r, h, batch, chunk_at(s, at)));
        TRY(chunk_backward(r, h, batch, chunk_at(s, at)));
    }
    TRY(tp_enter_backward(r->tp, r->scratch.stream, s->B * s->T, s->C));
    TRY(norm_backward(r, dx, &h->norm, r->scratch.stream, x, r->scratch.head.stat, GRAD_SET));
    return TRINE_OK;
}
