/* A column-parallel linear layer: Shoeybi et al., "Megatron-LM", 2019, section 3. It starts a tp region; the
 * communication is in tp/sharded_linear.c. */
#include "model/lora.h"

static trine_status forward(const layer_call *c) {
    layer_linear at;
    const tp_linear *l = linear_of(c, NULL, &at);
    return tp_column_forward(c->r->tp, c->out, l, c->in[0], c->r->rows, c->width, c->width_in);
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    layer_linear at;
    const tp_linear *l = linear_of(c, g->up, &at);
    return tp_column_backward(c->r->tp, g->in[0], l, g->out, c->in[0], c->r->rows, c->width,
                              c->width_in);
}

static trine_status backward_input(const layer_call *c, const layer_grads *g) {
    layer_linear at;
    const tp_linear *l = linear_of(c, g->up, &at);
    return tp_column_backward_input(c->r->tp, g->in[0], l, g->out, c->r->rows, c->width,
                                    c->width_in);
}

static trine_status backward_weight(const layer_call *c, const layer_grads *g) {
    layer_linear at;
    const tp_linear *l = linear_of(c, g->up, &at);
    return tp_column_backward_weight(c->r->tp, l, g->out, c->in[0], c->r->rows, c->width,
                                     c->width_in);
}

static size_t width(const gpt_shape *s, const trine_layer *row, size_t width_in) {
    (void)width_in;
    if (row->width.dim == TRINE_QKV) return gpt_qkv(s);
    return (size_t)layer_matrices(row) * layer_matrix(s, row, 0);
}

static double flops(const gpt_shape *s, double width_in, double width_out) {
    (void)s;
    return 2 * width_in * width_out;
}

static trine_status warm_column(warm_state *w, const trine_layer *row, size_t width_in,
                                size_t width_out) {
    return warm_product(w, row->no_bias ? WARM_NO_BIAS : WARM_COLUMN, warm_rows(w),
                        width_out / (size_t)w->s->tp, width_in);
}

const layer_kind kind_column = {
    .bits = BITS_TP | BITS_ROWS | BITS_PRODUCT,
    .inputs = 1,
    .takes_width = true,
    .in = {SHAPE_STREAM},
    .out = SHAPE_INSIDE,
    .tensors = {{"weight", SIDE_ROWS, START_NORMAL, FROM_ALL, false},
                {"bias", SIDE_WIDTH, START_ZERO, .optional = true}},
    .tensor_count = 2,
    .reads_in = {true},
    .forward = forward,
    .backward = backward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .sends = {.gathers = 1},
    .sends_backward = {.sums = 1, .gathers = 1, .together = true},
    .gathers_for_weight = true,
    .sends_input = {.sums = 1},
    .sends_weight = {.gathers = 1},
    .width = width,
    .flops = flops,
    .warm = warm_column,
};
