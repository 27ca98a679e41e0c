/* Root mean square norm: Zhang and Sennrich, "Root mean square layer normalization", 2019, with a gain over the
 * columns. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

static trine_status forward(const layer_call *c) {
    const unit_run *r = c->r;
    return r->dev->ops->rms_norm_forward(r->dev, c->out, c->aux, c->params[0].w, c->in[0],
                                         gpt_epsilon(r->shape), r->own.count, c->width);
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    size_t C = c->width;
    for (row_share rows = {0}; run_next_share(r, &rows);)
        TRY(r->dev->ops->rms_norm_backward(
            r->dev, call_row(c, g->in[0], rows.at, C), call_small(c, 0, rows.part),
            call_row(c, g->out, rows.at, C), c->params[0].w, call_row(c, c->in[0], rows.at, C),
            (float *)c->aux + rows.at, rows.n, C, g->mode[0], call_small_mode(c, 0, rows.part)));
    return TRINE_OK;
}

/* The reciprocal root mean square of each row. */
static size_t aux(const gpt_shape *s) {
    return gpt_rows(s).count * sizeof(float);
}

static trine_status warm_rms_norm(warm_state *w, const trine_layer *row, size_t width_in,
                                  size_t width) {
    const ops *o = w->d->ops;
    size_t R = gpt_rows(w->s).count, C = width;
    (void)row, (void)width_in;
    warm_begin(w);
    void *x = warm_numbers(w, R * C), *y = warm_numbers(w, R * C), *dx = warm_numbers(w, R * C);
    void *gain = warm_numbers(w, C), *dgain = warm_gradients(w, C);
    float *stat = warm_floats(w, R);
    if (!w->base) return TRINE_OK;
    TRY(o->rms_norm_forward(w->d, y, stat, gain, x, gpt_epsilon(w->s), R, C));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->rms_norm_backward(w->d, dx, dgain, y, gain, x, stat, R, C, mode, mode));
    return TRINE_OK;
}

const layer_kind kind_rms_norm = {
    .inputs = 1,
    .in = {SHAPE_STREAM},
    .out = SHAPE_STREAM,
    .tensors = {{"weight", SIDE_HIDDEN, START_ONE, FROM_ROWS, false}},
    .tensor_count = 1,
    .reads_in = {true},
    .adds = true,
    .rebuild = REBUILD_ROWS,
    .forward = forward,
    .backward = backward,
    .aux = aux,
    .workspace = gpt_discard,
    .warm = warm_rms_norm,
};
