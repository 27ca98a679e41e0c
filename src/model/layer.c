#include "model/layer.h"

#include "base/status.h"
#include "device/ops.h"

trine_status norm_forward(const gpt_run *r, void *y, float *stat, const gpt_norm *n,
                          const void *x) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->norm_forward(r->dev, y, stat, n->gain.w, n->bias.w, x, s->B * s->T, s->C));
    return TRINE_OK;
}

trine_status norm_backward(const gpt_run *r, void *dx, const gpt_norm *n, const void *dy,
                           const void *x, const float *stat, grad_mode stream) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->norm_backward(r->dev, dx, n->gain.dw, n->bias.dw, dy, n->gain.w, x, stat,
                                   s->B * s->T, s->C, stream, n->gain.mode));
    return TRINE_OK;
}

trine_status attention_forward(const gpt_run *r, void *att, float *lse, const void *qkv) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->attention_forward(r->dev, att, lse, qkv, r->scratch.attention, NULL, s->B,
                                       s->T, s->H / (size_t)s->tp, s->C / s->H));
    return TRINE_OK;
}

trine_status attention_backward(const gpt_run *r, void *dqkv, const void *datt, const void *qkv,
                                const void *att, const float *lse) {
    const gpt_shape *s = r->shape;
    TRY(r->dev->ops->attention_backward(r->dev, dqkv, datt, qkv, att, lse, r->scratch.attention,
                                        NULL, s->B, s->T, s->H / (size_t)s->tp, s->C / s->H));
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
