#include "model/decode.h"

#include "base/status.h"
#include "device/ops.h"

static void *take(arena *a, const device *d, mem_kind kind, size_t count) {
    return arena_take(a, kind, count * trine_dtype_bytes(d->compute));
}

static void *take_exchanged(arena *a, const device *d, size_t count) {
    return arena_take_exchanged(a, MEM_WORKSPACE, count * trine_dtype_bytes(d->compute));
}

void decode_scratch_take(arena *a, const gpt_shape *s, const device *d, size_t rows,
                         size_t head_rows, decode_scratch *out) {
    size_t tp = (size_t)s->tp, vocab = gpt_vocab(s).rows;
    *out = (decode_scratch){.rows = rows, .head_rows = head_rows};
    out->norm = take(a, d, MEM_WORKSPACE, rows * s->C);
    out->stat = arena_take(a, MEM_WORKSPACE, rows * 2 * sizeof *out->stat);
    out->qkv = take(a, d, MEM_WORKSPACE, rows * 3 * s->C / tp);
    out->att = take(a, d, MEM_WORKSPACE, rows * s->C / tp);
    out->mid = take_exchanged(a, d, rows * s->C);
    out->hidden = take(a, d, MEM_WORKSPACE, rows * s->F / tp);
    out->attention = arena_take(a, MEM_WORKSPACE,
                                d->ops->attention_workspace(d, 1, s->T, s->H / tp, s->C / s->H));
    if (!head_rows) return;
    out->logits = take_exchanged(a, d, head_rows * vocab);
    out->all = tp > 1 ? take_exchanged(a, d, tp * head_rows * vocab) : out->logits;
}

void decode_cache_take(arena *a, const gpt_shape *s, const device *d, decode_cache *out) {
    size_t count = s->T * s->C / (size_t)s->tp;
    out->keys = take(a, d, MEM_ACTIVATIONS, count);
    out->values = take(a, d, MEM_ACTIVATIONS, count);
}

void *decode_stream_take(arena *a, const gpt_shape *s, const device *d, size_t rows) {
    return take_exchanged(a, d, rows * s->C);
}

trine_status decode_embedding(const decode_run *r, const gpt_embedding *e, void *x,
                              const int32_t *tokens, size_t past, size_t n) {
    const gpt_shape *s = r->shape;
    TRY(tp_embedding_forward(r->tp, x, e->token.w, tokens, n, s->C, s->V));
    TRY(r->dev->ops->position_forward(r->dev, x, e->position.w, past, n, s->T, s->C));
    return TRINE_OK;
}

static trine_status norm(const decode_run *r, const gpt_norm *w, const void *x, size_t n) {
    return r->dev->ops->norm_forward(r->dev, r->scratch.norm, r->scratch.stat, w->gain.w, w->bias.w,
                                     x, n, r->shape->C);
}

/* block.c's lines. */
trine_status decode_block(const decode_run *r, const gpt_block *b, const decode_cache *cache,
                          void *x, size_t past, size_t n) {
    const gpt_shape *s = r->shape;
    const decode_scratch *a = &r->scratch;
    size_t C = s->C, F = s->F, tp = (size_t)s->tp;
    TRY(norm(r, &b->ln1, x, n));
    TRY(tp_column_forward(r->tp, a->qkv, &b->qkv, a->norm, n, 3 * C, C)); /* (n, 3C/tp) */
    TRY(r->dev->ops->attention_cached(r->dev, a->att, cache->keys, cache->values, a->qkv,
                                      a->attention, past, n, s->T, s->H / tp, C / s->H));
    TRY(tp_row_forward(r->tp, a->mid, &b->proj, a->att, x, NULL, n, C, C)); /* + x */
    TRY(norm(r, &b->ln2, a->mid, n));
    TRY(tp_column_forward(r->tp, a->hidden, &b->fc, a->norm, n, F, C)); /* (n, F/tp) */
    TRY(r->dev->ops->gelu_forward(r->dev, a->hidden, a->hidden, n * (F / tp)));
    TRY(tp_row_forward(r->tp, x, &b->out, a->hidden, a->mid, NULL, n, C, F)); /* + mid */
    return TRINE_OK;
}

trine_status decode_head(const decode_run *r, const gpt_head *h, const void *x, size_t n) {
    const gpt_shape *s = r->shape;
    TRY(norm(r, &h->norm, x, n));
    TRY(tp_logits_forward(r->tp, r->scratch.logits, &h->token, r->scratch.norm, n, s->C, s->V));
    TRY(tp_logits_gather(r->tp, r->scratch.all, r->scratch.logits, n, s->V));
    return TRINE_OK;
}
