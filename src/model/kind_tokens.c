/* Token embedding; the rows of the token matrix are split over tp: Shoeybi et al., "Megatron-LM", 2019, section 3. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

static trine_status forward(const layer_call *c) {
    const unit_run *r = c->r;
    return tp_embedding_forward(r->tp, c->out, &c->params[0], r->batch->tokens, r->rows, c->width,
                                r->shape->V);
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    const unit_run *r = c->r;
    return tp_embedding_backward(r->tp, &c->params[0], g->out, r->batch->tokens, r->rows, c->width,
                                 r->shape->V);
}

/* No matmul: the elements that it moves. */
static double flops(const gpt_shape *s, double width_in, double width) {
    (void)s, (void)width_in;
    return width;
}

static trine_status warm_tokens(warm_state *w, const trine_layer *row, size_t width_in,
                                size_t width) {
    const ops *o = w->d->ops;
    tp_vocab own = gpt_vocab(w->s);
    size_t N = warm_rows(w);
    (void)row, (void)width_in;
    warm_begin(w);
    void *x = warm_numbers(w, N * width), *table = warm_numbers(w, own.rows * width);
    void *dtable = warm_gradients(w, own.rows * width);
    int32_t *ids = warm_tokens_of(w, N);
    if (!w->base) return TRINE_OK;
    TRY(o->embedding_forward(w->d, x, table, ids, 0, N, width, own.valid));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->embedding_backward(w->d, dtable, x, ids, 0, N, width, own.valid, mode));
    return TRINE_OK;
}

const layer_kind kind_tokens = {
    .out = SHAPE_STREAM,
    .in_embedding = true,
    .tensors = {{"weight", SIDE_VOCABULARY, START_NORMAL, FROM_ALL, false}},
    .tensor_count = 1,
    .forward = forward,
    .backward = backward,
    .sends = {.sums = 1},
    .sends_backward = {.gathers = 1},
    .gathers_for_weight = true,
    .flops = flops,
    .warm = warm_tokens,
};
