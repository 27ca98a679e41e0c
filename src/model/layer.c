#include "model/layer.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/status.h"
#include "device/ops.h"

trine_status norm_forward(const gpt_run *r, void *y, float *stat, const gpt_norm *n,
                          const void *x) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->norm_forward(r->dev, y, stat, n->gain.w, n->bias.w, x, gpt_rows(s).count,
                                  s->C));
    return TRINE_OK;
}

trine_status norm_backward(const gpt_run *r, void *dx, const gpt_norm *n, const void *dy,
                           const void *x, const float *stat, grad_mode stream) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->norm_backward(r->dev, dx, n->gain.dw, n->bias.dw, dy, n->gain.w, x, stat,
                                   gpt_rows(s).count, s->C, stream, n->gain.mode));
    return TRINE_OK;
}

trine_status attention_forward(const gpt_run *r, void *att, float *lse, const void *qkv,
                               const dropout_args *drop) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->attention_forward(r->dev, att, lse, qkv, r->scratch.attention, drop, s->B,
                                       s->T, s->H / (size_t)s->tp, s->C / s->H));
    return TRINE_OK;
}

trine_status attention_backward(const gpt_run *r, void *dqkv, const void *datt, const void *qkv,
                                const void *att, const float *lse, const dropout_args *drop) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->attention_backward(r->dev, dqkv, datt, qkv, att, lse, r->scratch.attention,
                                        drop, s->B, s->T, s->H / (size_t)s->tp, s->C / s->H));
    return TRINE_OK;
}

static size_t hidden_count(const gpt_shape *s) {
    return s->B * s->T * (s->F / (size_t)s->tp);
}

trine_status gelu_forward(const gpt_run *r, void *y, const void *x) {
    TRY(r->dev->ops->gelu_forward(r->dev, y, x, hidden_count(r->shape)));
    return TRINE_OK;
}

trine_status gelu_backward(const gpt_run *r, void *d, const void *x) {
    TRY(r->dev->ops->gelu_backward(r->dev, d, d, x, hidden_count(r->shape)));
    return TRINE_OK;
}

/* ---- Dropout --------------------------------------------------------------------------------- */

static uint64_t dropout_key(uint64_t seed, dropout_place place, int unit) {
    static const char *const names[] = {[DROP_ATTENTION] = "attn.dropout",
                                        [DROP_RESIDUAL] = "attn.resid_dropout",
                                        [DROP_MLP] = "mlp.dropout"};
    char name[32];
    if (place == DROP_EMBEDDING) return rng_key(seed, "wte.dropout");
    snprintf(name, sizeof name, "h.%d.%s", unit - 1, names[place]);
    return rng_key(seed, name);
}

const dropout_args *dropout_of(const gpt_run *r, dropout_place place, int unit,
                               const gpt_batch *batch, dropout_args *out) {
    const gpt_shape *s = r->shape;
    bool heads = place == DROP_ATTENTION;
    double p = heads ? s->attention_dropout : s->hidden_dropout;
    if (!r->training || p == 0) return NULL;
    size_t first_head = (size_t)s->tp_rank * (s->H / (size_t)s->tp);
    *out = (dropout_args){.p = (float)p,
                          .key = dropout_key(r->seed, place, unit),
                          .sample = batch->sample,
                          .first = heads ? first_head : gpt_rows(s).first,
                          .T = s->T};
    return out;
}

trine_status dropout_backward(const gpt_run *r, const void **dx, const void *dy,
                              dropout_place place, int unit, const gpt_batch *batch) {
    dropout_args args;
    const dropout_args *drop = dropout_of(r, place, unit, batch, &args);
    *dx = drop ? r->scratch.dropped : dy;
    if (!drop) return TRINE_OK;
    TRY(r->dev->ops->dropout(r->dev, r->scratch.dropped, dy, drop, gpt_rows(r->shape).count,
                             r->shape->C));
    return TRINE_OK;
}
