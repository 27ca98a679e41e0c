/* Layer norm: Ba et al., "Layer normalization", 2016, with gain and bias over the columns. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

static trine_status forward(const layer_call *c) {
    const unit_run *r = c->r;
    return r->dev->ops->norm_forward(r->dev, c->out, c->aux, c->params[0].w, c->params[1].w,
                                     c->in[0], r->own.count, c->width);
}

/* Gain and bias have the same mode. */
static trine_status backward(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    size_t C = c->width;
    for (row_share rows = {0}; run_next_share(r, &rows);) {
        void *dgain = call_small(c, 0, rows.part), *dbias = call_small(c, 1, rows.part);
        TRY(r->dev->ops->norm_backward(r->dev, call_row(c, g->in[0], rows.at, C), dgain, dbias,
                                       call_row(c, g->out, rows.at, C), c->params[0].w,
                                       call_row(c, c->in[0], rows.at, C),
                                       (float *)c->aux + 2 * rows.at, rows.n, C, g->mode[0],
                                       call_small_mode(c, 0, rows.part)));
    }
    return TRINE_OK;
}

/* Mean and reciprocal standard deviation of each row. */
static size_t aux(const gpt_shape *s) {
    return gpt_rows(s).count * 2 * sizeof(float);
}

static trine_status warm_norm(warm_state *w, const trine_layer *row, size_t width_in,
                              size_t width) {
    const ops *o = w->d->ops;
    size_t R = gpt_rows(w->s).count, C = width;
    (void)row, (void)width_in;
    warm_begin(w);
    void *x = warm_numbers(w, R * C), *y = warm_numbers(w, R * C), *dx = warm_numbers(w, R * C);
    void *gain = warm_numbers(w, C), *bias = warm_numbers(w, C);
    void *dgain = warm_gradients(w, C), *dbias = warm_gradients(w, C);
    float *stat = warm_floats(w, 2 * R);
    if (!w->base) return TRINE_OK;
    TRY(o->norm_forward(w->d, y, stat, gain, bias, x, R, C));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->norm_backward(w->d, dx, dgain, dbias, y, gain, x, stat, R, C, mode, mode));
    return TRINE_OK;
}

const layer_kind kind_norm = {
    .inputs = 1,
    .in = {SHAPE_STREAM},
    .out = SHAPE_STREAM,
    .tensors = {{"weight", SIDE_HIDDEN, START_ONE, FROM_ROWS, false},
                {"bias", SIDE_HIDDEN, START_ZERO, FROM_ROWS, false}},
    .tensor_count = 2,
    .reads_in = {true},
    .adds = true,
    .rebuild = REBUILD_ROWS,
    .forward = forward,
    .backward = backward,
    .aux = aux,
    .workspace = gpt_discard,
    .warm = warm_norm,
};
