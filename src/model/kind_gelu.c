/* GELU: Hendrycks and Gimpel, "Gaussian error linear units", 2016, the tanh form. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

static size_t elements(const layer_call *c) {
    return call_rows(c) * call_columns(c);
}

static trine_status forward(const layer_call *c) {
    return c->r->dev->ops->gelu_forward(c->r->dev, c->out, c->in[0], elements(c));
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    return c->r->dev->ops->gelu_backward(c->r->dev, g->in[0], g->out, c->in[0], elements(c));
}

static trine_status warm_gelu(warm_state *w, const trine_layer *row, size_t width_in,
                              size_t width_out) {
    size_t n = warm_rows(w) * width_out / (size_t)w->s->tp;
    (void)row, (void)width_in;
    warm_begin(w);
    void *x = warm_numbers(w, n), *y = warm_numbers(w, n);
    if (!w->base) return TRINE_OK;
    TRY(w->d->ops->gelu_forward(w->d, y, x, n));
    return w->d->ops->gelu_backward(w->d, y, y, x, n);
}

const layer_kind kind_gelu = {
    .inputs = 1,
    .keeps_columns = true,
    .in = {SHAPE_INSIDE},
    .out = SHAPE_INSIDE,
    .reads_in = {true},
    .over_in = true,
    .in_place = true,
    .rebuild = REBUILD_ELEMENTS,
    .forward = forward,
    .backward = backward,
    .warm = warm_gelu,
};
