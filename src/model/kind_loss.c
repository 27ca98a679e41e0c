/* The head's matmul with the token matrix and the cross-entropy, one row chunk [at, at + n) of the micro-batch at a
 * time: at most one chunk of logits exists, and none outlives the call. The gradient is computed together with the
 * loss, so that the matmul runs once: a unit that ends in LOSS does nothing in the FORWARD of a training step. */
#include "base/status.h"
#include "device/ops.h"
#include "model/kind.h"

typedef struct {
    size_t at, n;
} chunk;

static chunk chunk_at(const gpt_shape *s, size_t at) {
    size_t N = s->B * s->T, K = gpt_loss_rows(s);
    return (chunk){at, N - at < K ? N - at : K};
}

static trine_status enter(const layer_call *c) {
    const void *full;
    return tp_gather(c->r->tp, &full, c->in[0], c->r->rows, c->width_in);
}

static trine_status chunk_loss(const layer_call *c, chunk k) {
    const unit_run *r = c->r;
    const gpt_loss_scratch *a = r->loss;
    size_t V = r->shape->V;
    const void *rows = tp_full_row(r->tp, c->in[0], k.at, c->width_in);
    TRY(tp_logits_forward(r->tp, a->logits, &c->params[0], rows, k.n, c->width_in, V));
    return tp_xent_forward(r->tp, r->batch->loss, &a->xent, a->logits, r->batch->targets + k.at,
                           r->batch->scale, k.n, V);
}

/* The gradient of the chunk's rows of in[0] becomes this rank's addend. */
static trine_status chunk_backward(const layer_call *c, chunk k) {
    const unit_run *r = c->r;
    const gpt_loss_scratch *a = r->loss;
    size_t V = r->shape->V;
    param token = c->params[0];
    if (k.at > 0) token.mode = GRAD_ADD;
    TRY(tp_xent_backward(r->tp, a->logits, &a->xent, r->batch->targets + k.at, r->batch->grad_scale,
                         k.n, V));
    return tp_logits_backward(r->tp, c->in[0], k.at, &token, a->logits, k.n, c->width_in, V);
}

static trine_status forward(const layer_call *c) {
    const gpt_shape *s = c->r->shape;
    TRY(enter(c));
    for (size_t at = 0; at < s->B * s->T; at += gpt_loss_rows(s))
        TRY(chunk_loss(c, chunk_at(s, at)));
    return TRINE_OK;
}

static trine_status backward(const layer_call *c, const layer_grads *g) {
    const gpt_shape *s = c->r->shape;
    ASSERT(g->in[0] == c->in[0]);
    TRY(enter(c));
    for (size_t at = 0; at < s->B * s->T; at += gpt_loss_rows(s)) {
        TRY(chunk_loss(c, chunk_at(s, at)));
        TRY(chunk_backward(c, chunk_at(s, at)));
    }
    return tp_sum_ranks(c->r->tp, g->in[0], c->r->rows, c->width_in);
}

static trine_status decode(const layer_call *c, const layer_decode *d) {
    const unit_run *r = c->r;
    size_t V = r->shape->V;
    TRY(tp_logits_forward(r->tp, d->logits, &c->params[0], c->in[0], r->rows, c->width_in, V));
    return tp_logits_gather(r->tp, d->all, d->logits, r->rows, V);
}

/* The maxima and sums of each chunk of logits, in fp32. */
static uint64_t sends_more(const rank_state *s) {
    const gpt_shape *shape = s->config.model.shape;
    uint64_t bytes = 0;
    for (size_t at = 0; at < shape->B * shape->T; at += gpt_loss_rows(shape)) {
        size_t n = chunk_at(shape, at).n;
        bytes += state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_REDUCE, n, TRINE_F32) +
                 state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_REDUCE, 2 * n, TRINE_F32);
    }
    return bytes;
}

static double flops(const gpt_shape *s, double width_in, double width) {
    (void)width;
    return 2 * (double)s->V * width_in;
}

static trine_status warm_rows_of(warm_state *w, size_t n, size_t width_in) {
    const ops *o = w->d->ops;
    tp_vocab own = gpt_vocab(w->s);
    TRY(warm_product(w, WARM_NO_BIAS, n, own.rows, width_in));
    warm_begin(w);
    void *logits = warm_numbers(w, n * own.rows);
    float *max = warm_floats(w, n), *most = warm_floats(w, n), *sums = warm_floats(w, 2 * n);
    double *loss = warm_bytes(w, sizeof *loss);
    int32_t *targets = warm_tokens_of(w, n);
    if (!w->base) return TRINE_OK;
    TRY(o->xent_forward(w->d, max, sums, logits, targets, 0, n, own.rows, own.valid));
    if (w->s->tp > 1) TRY(o->xent_rescale(w->d, sums, max, most, n));
    TRY(o->xent_loss(w->d, loss, max, sums, targets, 1.0, n));
    return o->xent_backward(w->d, logits, max, sums, targets, 0, 1.0f, n, own.rows, own.valid);
}

static trine_status warm_loss(warm_state *w, const trine_layer *row, size_t width_in,
                              size_t width) {
    size_t K = gpt_loss_rows(w->s), rest = warm_rows(w) % K;
    (void)row, (void)width;
    TRY(warm_rows_of(w, K, width_in));
    return rest ? warm_rows_of(w, rest, width_in) : TRINE_OK;
}

const layer_kind kind_loss = {
    .bits = BITS_TP | BITS_ROWS | BITS_CHUNK | BITS_PRODUCT,
    .inputs = 1,
    .in = {SHAPE_STREAM},
    .tensors = {{"weight", SIDE_VOCABULARY, START_NORMAL, FROM_ALL, false}},
    .tensor_count = 1,
    .gradient_in_place = true,
    .forward = forward,
    .backward = backward,
    .decode = decode,
    .sends = {.gathers = 1},
    .sends_backward = {.sums = 1, .gathers = 1},
    .sends_more = sends_more,
    .flops = flops,
    .warm = warm_loss,
};
