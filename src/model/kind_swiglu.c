/* SwiGLU: Shazeer, "GLU variants improve transformer", 2020: silu(gate) times up, of two stacked matrices' outputs. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

static trine_status forward(const layer_call *c) {
    const unit_run *r = c->r;
    return r->dev->ops->swiglu_forward(r->dev, c->out, c->in[0], call_rows(c), call_columns(c));
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    return r->dev->ops->swiglu_backward(r->dev, g->in[0], g->out, c->in[0], call_rows(c),
                                        call_columns(c));
}

static size_t width(const gpt_shape *s, const trine_layer *row, size_t width_in) {
    (void)s, (void)row;
    return width_in / 2;
}

static trine_status warm_swiglu(warm_state *w, const trine_layer *row, size_t width_in,
                                size_t width_out) {
    size_t T = warm_rows(w), F = width_out / (size_t)w->s->tp;
    (void)row, (void)width_in;
    warm_begin(w);
    void *x = warm_numbers(w, 2 * T * F), *y = warm_numbers(w, T * F),
         *dx = warm_numbers(w, 2 * T * F);
    if (!w->base) return TRINE_OK;
    TRY(w->d->ops->swiglu_forward(w->d, y, x, T, F));
    return w->d->ops->swiglu_backward(w->d, dx, y, x, T, F);
}

const layer_kind kind_swiglu = {
    .inputs = 1,
    .parts_in = 2,
    .in = {SHAPE_INSIDE},
    .out = SHAPE_INSIDE,
    .reads_in = {true},
    .rebuild = REBUILD_ELEMENTS,
    .forward = forward,
    .backward = backward,
    .width = width,
    .warm = warm_swiglu,
};
