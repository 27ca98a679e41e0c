/* A root mean square norm of each query and key head, with gains that all heads share: Qwen3; Henry et al.,
 * "Query-key normalization for transformers", 2020. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

static trine_status forward(const layer_call *c) {
    const unit_run *r = c->r;
    const gpt_shape *s = r->shape;
    return r->dev->ops->qk_norm_forward(r->dev, c->out, c->aux, c->params[0].w, c->params[1].w,
                                        c->in[0], gpt_epsilon(s), call_rows(c), gpt_heads(s),
                                        gpt_kv_heads(s), gpt_head_width(s));
}

static size_t stats(const gpt_shape *s) {
    return s->B * s->T * (gpt_heads(s) + gpt_kv_heads(s));
}

/* Both gains have the same mode; each part has gradients of its own. */
static trine_status backward(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    const gpt_shape *s = r->shape;
    const param *q = &c->params[0], *k = &c->params[1];
    for (int p = 0; p < gpt_parts(s); p++) {
        size_t at = (size_t)p * r->rows, columns = call_columns(c);
        TRY(r->dev->ops->qk_norm_backward(
            r->dev, call_row(c, g->in[0], at, columns), call_small(c, 0, p), call_small(c, 1, p),
            call_row(c, g->out, at, columns), q->w, k->w, call_row(c, c->in[0], at, columns),
            (float *)c->aux + (size_t)p * stats(s), r->rows, gpt_heads(s), gpt_kv_heads(s),
            gpt_head_width(s), q->mode));
    }
    return TRINE_OK;
}

/* The reciprocal root mean square of each query and key head of each row. */
static size_t aux(const gpt_shape *s) {
    return (size_t)gpt_parts(s) * stats(s) * sizeof(float);
}

static trine_status warm_qk_norm(warm_state *w, const trine_layer *row, size_t in,
                                 size_t width_out) {
    const ops *o = w->d->ops;
    const gpt_shape *s = w->s;
    size_t T = warm_rows(w), H = gpt_heads(s), K = gpt_kv_heads(s), D = gpt_head_width(s);
    (void)row, (void)in, (void)width_out;
    warm_begin(w);
    void *x = warm_numbers(w, T * (H + 2 * K) * D), *y = warm_numbers(w, T * (H + 2 * K) * D);
    void *gain = warm_numbers(w, D), *dq = warm_gradients(w, D), *dk = warm_gradients(w, D);
    float *stat = warm_floats(w, T * (H + K));
    if (!w->base) return TRINE_OK;
    TRY(o->qk_norm_forward(w->d, y, stat, gain, gain, x, gpt_epsilon(s), T, H, K, D));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->qk_norm_backward(w->d, y, dq, dk, y, gain, gain, x, stat, T, H, K, D, mode));
    return TRINE_OK;
}

const layer_kind kind_qk_norm = {
    .inputs = 1,
    .parts_in = 3,
    .keeps_columns = true,
    .in = {SHAPE_INSIDE},
    .out = SHAPE_INSIDE,
    .tensors = {{"q_norm.weight", SIDE_HEAD, START_ONE, FROM_HEADS, false},
                {"k_norm.weight", SIDE_HEAD, START_ONE, FROM_HEADS, false}},
    .tensor_count = 2,
    .reads_in = {true},
    .in_place = true,
    .forward = forward,
    .backward = backward,
    .width_in = gpt_qkv,
    .aux = aux,
    .workspace = gpt_discard,
    .warm = warm_qk_norm,
};
