/* Learned positions: Radford et al. 2019 (GPT-2). They are added in place after the sum over tp; before it they
 * would be counted tp times. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

static trine_status forward(const layer_call *c) {
    const unit_run *r = c->r;
    dropout_args args;
    const dropout_args *drop = run_dropout(r, c->row, &args);
    ASSERT(c->out == c->in[0]);
    TRY(r->dev->ops->position_forward(r->dev, c->out, c->params[0].w,
                                      run_starts(r, STARTS_POSITIONS), r->own.first, r->own.count,
                                      r->shape->T, c->width));
    if (drop) TRY(r->dev->ops->dropout(r->dev, c->out, c->out, drop, r->own.count, c->width));
    return TRINE_OK;
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    const param *table = &c->params[0];
    dropout_args args;
    const dropout_args *drop = run_dropout(r, c->row, &args);
    if (drop) TRY(r->dev->ops->dropout(r->dev, g->out, g->out, drop, r->own.count, c->width));
    for (row_share rows = {0}; run_next_share(r, &rows);)
        if (rows.part >= 0 && table->dw)
            TRY(r->dev->ops->position_backward(
                r->dev, tp_dw(r->tp, table, rows.part), call_row(c, g->out, rows.at, c->width),
                run_starts(r, STARTS_POSITIONS), r->own.first + rows.at, rows.n, r->shape->T,
                c->width, table->mode));
    return TRINE_OK;
}

static double flops(const gpt_shape *s, double width_in, double width) {
    (void)s, (void)width_in;
    return width;
}

static trine_status warm_positions(warm_state *w, const trine_layer *row, size_t width_in,
                                   size_t width) {
    const ops *o = w->d->ops;
    tp_rows r = gpt_rows(w->s);
    size_t T = w->s->T;
    (void)row, (void)width_in;
    warm_begin(w);
    void *x = warm_numbers(w, r.count * width), *table = warm_numbers(w, T * width);
    void *dtable = warm_gradients(w, T * width);
    const int32_t *starts = warm_starts(w, w->s->reset_positions, warm_rows(w));
    if (!w->base) return TRINE_OK;
    TRY(o->position_forward(w->d, x, table, starts, r.first, r.count, T, width));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->position_backward(w->d, dtable, x, starts, r.first, r.count, T, width, mode));
    return TRINE_OK;
}

const layer_kind kind_positions = {
    .inputs = 1,
    .takes_dropout = true,
    .in = {SHAPE_STREAM},
    .out = SHAPE_STREAM,
    .in_embedding = true,
    .tensors = {{"weight", SIDE_POSITIONS, START_POSITION, FROM_ROWS, false}},
    .tensor_count = 1,
    .over_in = true,
    .over_tokens = true,
    .starts = STARTS_POSITIONS,
    .in_place = true,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .warm = warm_positions,
};
