/* A row-parallel linear layer: Shoeybi et al., "Megatron-LM", 2019, section 3. It ends a tp region: dropout is
 * applied to the output, then in[1] is added. */
#include "base/status.h"
#include "device/ops.h"
#include "model/lora.h"

static trine_status forward(const layer_call *c) {
    layer_linear at;
    const tp_linear *l = linear_of(c, NULL, &at);
    dropout_args args;
    const dropout_args *drop = run_dropout(c->r, c->row, &args);
    return tp_row_forward(c->r->tp, c->out, l, c->in[0], c->in[1], drop, c->r->rows, c->width,
                          c->width_in);
}

/* *dropped (R, C) = the gradient of the input of the dropout; dy itself if nothing is dropped. */
static trine_status through_dropout(const layer_call *c, const void *dy, const void **dropped) {
    const unit_run *r = c->r;
    dropout_args args;
    const dropout_args *drop = run_dropout(r, c->row, &args);
    *dropped = drop ? r->dropped : dy;
    if (!drop) return TRINE_OK;
    return r->dev->ops->dropout(r->dev, r->dropped, dy, drop, r->own.count, c->width);
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    layer_linear at;
    const tp_linear *l = linear_of(c, g->up, &at);
    const void *dropped;
    TRY(through_dropout(c, g->out, &dropped));
    return tp_row_backward(c->r->tp, g->in[0], l, dropped, c->in[0], c->r->rows, c->width,
                           c->width_in);
}

/* Keeps a copy of the gradient of the output for backward_weight, because dy itself passes on to in[1]. */
static trine_status backward_input(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    layer_linear at;
    const tp_linear *l = linear_of(c, g->up, &at);
    const void *dropped;
    TRY(through_dropout(c, g->out, &dropped));
    device_copy(r->dev, g->keep, dropped,
                r->own.count * c->width * trine_dtype_bytes(r->dev->compute));
    return tp_row_backward_input(r->tp, g->in[0], l, g->keep, r->rows, c->width, c->width_in);
}

static trine_status backward_weight(const layer_call *c, const layer_grads *g) {
    layer_linear at;
    const tp_linear *l = linear_of(c, g->up, &at);
    return tp_row_backward_weight(c->r->tp, l, g->keep, c->in[0], c->r->rows, c->width,
                                  c->width_in);
}

static double flops(const gpt_shape *s, double width_in, double width) {
    (void)s;
    return 2 * width_in * width;
}

/* The operators that follow the matmul if tp ranks sum it. */
static trine_status warm_residual(warm_state *w, const trine_layer *row, size_t width) {
    const ops *o = w->d->ops;
    size_t R = gpt_rows(w->s).count;
    const dropout_args drop = {.p = row->dropout ? (float)w->s->hidden_dropout : 0, .T = w->s->T};
    warm_begin(w);
    void *x = warm_numbers(w, R * width), *y = warm_numbers(w, R * width);
    void *bias = warm_numbers(w, width);
    if (!w->base) return TRINE_OK;
    TRY(o->bias_residual(w->d, y, bias, x, R, width));
    if (drop.p <= 0) return TRINE_OK;
    TRY(o->dropout_residual(w->d, y, bias, x, &drop, R, width));
    return o->dropout(w->d, y, x, &drop, R, width);
}

static trine_status warm_row(warm_state *w, const trine_layer *row, size_t width_in, size_t width) {
    TRY(warm_product(w, row->no_bias ? WARM_ROW_NO_BIAS : WARM_ROW, warm_rows(w), width,
                     width_in / (size_t)w->s->tp));
    return warm_residual(w, row, width);
}

const layer_kind kind_row = {
    .bits = BITS_TP | BITS_ROWS | BITS_PRODUCT,
    .inputs = 1,
    .takes_dropout = true,
    .parts_in = 1,
    .in = {SHAPE_INSIDE, SHAPE_STREAM},
    .out = SHAPE_STREAM,
    .tensors = {{"weight", SIDE_COLUMNS, START_RESIDUAL, FROM_ALL, false},
                {"bias", SIDE_HIDDEN, START_ZERO, .optional = true}},
    .tensor_count = 2,
    .reads_in = {true},
    .addend = true,
    .copies = true,
    .forward = forward,
    .backward = backward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .sends = {.sums = 1},
    .sends_backward = {.gathers = 1},
    .sends_input = {.gathers = 1},
    .sends_weight = {.gathers = 1},
    .flops = flops,
    .warm = warm_row,
};
