/* Causal attention over this rank's heads, part by part: Vaswani et al., "Attention is all you need", 2017, section 3.2.1; tiled
 * as in Dao et al., "FlashAttention", 2022. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

/* The memory of a part: qkv (N, ...), output (N, ...), logarithms. */
typedef struct {
    void *qkv, *y, *dqkv, *dy;
    float *lse;
    dropout_args args;
} head_part;

static size_t logs(const gpt_shape *s) {
    return s->B * s->T * gpt_heads(s);
}

static head_part part_of(const layer_call *c, const layer_grads *g, int p) {
    size_t at = (size_t)p * c->r->rows, in = call_columns_in(c), out = call_columns(c);
    return (head_part){.qkv = call_row(c, c->in[0], at, in),
                       .y = call_row(c, c->out, at, out),
                       .dqkv = g ? call_row(c, g->in[0], at, in) : NULL,
                       .dy = g ? call_row(c, g->out, at, out) : NULL,
                       .lse = (float *)c->aux + (size_t)p * logs(c->r->shape)};
}

static trine_status forward(const layer_call *c) {
    const unit_run *r = c->r;
    const gpt_shape *s = r->shape;
    for (int p = 0; p < gpt_parts(s); p++) {
        head_part h = part_of(c, NULL, p);
        const dropout_args *drop = run_dropout_of_heads(r, c->row, p, &h.args);
        TRY(r->dev->ops->attention_forward(
            r->dev, h.y, h.lse, h.qkv, run_starts(r, STARTS_ATTENTION), r->workspace, drop, s->B,
            s->T, gpt_heads(s), gpt_kv_heads(s), gpt_head_width(s)));
    }
    return TRINE_OK;
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    const gpt_shape *s = r->shape;
    for (int p = 0; p < gpt_parts(s); p++) {
        head_part h = part_of(c, g, p);
        const dropout_args *drop = run_dropout_of_heads(r, c->row, p, &h.args);
        TRY(r->dev->ops->attention_backward(
            r->dev, h.dqkv, h.dy, h.qkv, h.y, h.lse, run_starts(r, STARTS_ATTENTION), r->workspace,
            drop, s->B, s->T, gpt_heads(s), gpt_kv_heads(s), gpt_head_width(s)));
    }
    return TRINE_OK;
}

static trine_status decode(const layer_call *c, const layer_decode *d) {
    const unit_run *r = c->r;
    const gpt_shape *s = r->shape;
    return r->dev->ops->attention_cached(r->dev, c->out, d->cache[0], d->cache[1], c->in[0],
                                         r->workspace, d->past, r->rows, s->T, gpt_heads(s),
                                         gpt_kv_heads(s), gpt_head_width(s));
}

/* The logarithm of the sum of exponentials of each row and head. */
static size_t aux(const gpt_shape *s) {
    return (size_t)gpt_parts(s) * logs(s) * sizeof(float);
}

static size_t workspace(const device *d, const gpt_shape *s) {
    return d->ops->attention_workspace(d, s->B, s->T, gpt_heads(s), gpt_kv_heads(s),
                                       gpt_head_width(s));
}

/* Keys (K/tp, D, T), values (K/tp, T, D). */
static size_t cache(const gpt_shape *s) {
    return s->T * gpt_kv_heads(s) * gpt_head_width(s);
}

static size_t width(const gpt_shape *s, const trine_layer *row, size_t in) {
    (void)row, (void)in;
    return s->H * gpt_head_width(s);
}

/* Scores and weighted values; on average half of the positions are masked. */
static double flops(const gpt_shape *s, double in, double width) {
    (void)in;
    return 2 * (double)s->T * width;
}

/* One sample is enough: more samples are more thread blocks of the same kernels. */
static trine_status warm_heads(warm_state *w, const dropout_args *drop) {
    const ops *o = w->d->ops;
    const gpt_shape *s = w->s;
    size_t T = s->T, H = gpt_heads(s), K = gpt_kv_heads(s), D = gpt_head_width(s);
    size_t count = T * (H + 2 * K) * D;
    warm_begin(w);
    void *qkv = warm_numbers(w, count), *dqkv = warm_numbers(w, count);
    void *y = warm_numbers(w, T * H * D), *dy = warm_numbers(w, T * H * D);
    float *lse = warm_floats(w, H * T);
    void *work = warm_bytes(w, o->attention_workspace(w->d, 1, T, H, K, D));
    const int32_t *starts = warm_starts(w, s->reset_attention, T);
    if (!w->base) return TRINE_OK;
    TRY(o->attention_forward(w->d, y, lse, qkv, starts, work, drop, 1, T, H, K, D));
    return o->attention_backward(w->d, dqkv, dy, qkv, y, lse, starts, work, drop, 1, T, H, K, D);
}

static trine_status warm_attention(warm_state *w, const trine_layer *row, size_t in, size_t width) {
    const dropout_args drop = {.p = row->dropout ? (float)w->s->attention_dropout : 0,
                               .T = w->s->T};
    (void)in, (void)width;
    TRY(warm_heads(w, NULL)); /* an evaluation drops nothing */
    return drop.p > 0 ? warm_heads(w, &drop) : TRINE_OK;
}

const layer_kind kind_attention = {
    .inputs = 1,
    .takes_dropout = true,
    .parts_in = 3,
    .in = {SHAPE_INSIDE},
    .out = SHAPE_INSIDE,
    .reads_in = {true},
    .reads_out = true,
    .starts = STARTS_ATTENTION,
    .forward = forward,
    .backward = backward,
    .decode = decode,
    .width = width,
    .width_in = gpt_qkv,
    .aux = aux,
    .workspace = workspace,
    .cache = cache,
    .flops = flops,
    .warm = warm_attention,
};
