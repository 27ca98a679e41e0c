#include "train/warm_up.h"

#include "base/status.h"
#include "device/ops.h"

/* Each operator takes its operands from the beginning of one scratch. The list is walked twice:
 * first nothing is run, and `most` is how much the largest needs. */
typedef struct {
    device *d;
    const gpt_shape *s;
    void *base; /* NULL at first */
    size_t most;
    arena a; /* of the operator that is next */
} warm;

static void begin(warm *w) {
    arena_init(&w->a, w->base, w->most);
}

static void *bytes(warm *w, size_t n) {
    void *p = arena_take(&w->a, MEM_WORKSPACE, n);
    if (w->a.used > w->most) w->most = w->a.used;
    return p;
}

/* Of the compute type. */
static void *numbers(warm *w, size_t n) {
    return bytes(w, n * trine_dtype_bytes(w->d->compute));
}

static void *gradients(warm *w, size_t n) {
    return bytes(w, n * trine_dtype_bytes(w->d->grads));
}

static float *floats(warm *w, size_t n) {
    return bytes(w, n * sizeof(float));
}

/* Tokens, all 0: what the operator before has left there would be none. */
static int32_t *tokens(warm *w, size_t n) {
    int32_t *t = bytes(w, n * sizeof *t);
    if (t) device_zero(w->d, t, n * sizeof *t);
    return t;
}

static size_t rows(const warm *w) {
    return w->s->B * w->s->T;
}

/* ---- Products ---- */

/* y (T, N) of x (T, K), and what is added to it: a bias by the product itself, or where one rank has
 * the layer alone a bias and the residual stream; the gradient of either bias comes with the
 * weight's. */
typedef enum { NO_BIAS, COLUMN, ROW } layer_kind;

typedef struct {
    layer_kind kind;
    size_t T, N, K;
} layer;

static trine_status product(warm *w, const layer *l) {
    const ops *o = w->d->ops;
    bool residual = l->kind == ROW && w->s->tp == 1 && o->linear_residual;
    begin(w);
    void *x = numbers(w, l->T * l->K), *y = numbers(w, l->T * l->N);
    void *stream = residual ? numbers(w, l->T * l->N) : NULL;
    void *weight = numbers(w, l->N * l->K), *bias = numbers(w, l->N);
    void *dw = gradients(w, l->N * l->K), *dbias = gradients(w, l->N);
    if (!w->base) return TRINE_OK;
    TRY(o->linear_forward(w->d, y, weight, l->kind == COLUMN ? bias : NULL, x, l->T, l->N, l->K));
    if (residual) TRY(o->linear_residual(w->d, y, weight, bias, stream, x, l->T, l->N, l->K));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->linear_backward_weight(w->d, dw, l->kind == NO_BIAS ? NULL : dbias, y, x, l->T, l->N,
                                      l->K, mode));
    TRY(o->linear_backward_input(w->d, x, weight, y, l->T, l->N, l->K));
    return TRINE_OK;
}

static trine_status block_products(warm *w) {
    const gpt_shape *s = w->s;
    size_t N = rows(w), tp = (size_t)s->tp;
    const layer layers[] = {{COLUMN, N, 3 * s->C / tp, s->C},
                            {ROW, N, s->C, s->C / tp},
                            {COLUMN, N, s->F / tp, s->C},
                            {ROW, N, s->C, s->F / tp}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) TRY(product(w, &layers[i]));
    return TRINE_OK;
}

/* ---- The head, a chunk of `n` rows ---- */

static trine_status cross_entropy(warm *w, size_t n) {
    const ops *o = w->d->ops;
    tp_vocab own = gpt_vocab(w->s);
    begin(w);
    void *logits = numbers(w, n * own.rows);
    float *max = floats(w, n), *most = floats(w, n), *sums = floats(w, 2 * n);
    double *loss = bytes(w, sizeof *loss);
    int32_t *targets = tokens(w, n);
    if (!w->base) return TRINE_OK;
    TRY(o->xent_forward(w->d, max, sums, logits, targets, 0, n, own.rows, own.valid));
    if (w->s->tp > 1) TRY(o->xent_rescale(w->d, sums, max, most, n));
    TRY(o->xent_loss(w->d, loss, max, sums, 1.0, n));
    TRY(o->xent_backward(w->d, logits, max, sums, targets, 0, 1.0f, n, own.rows, own.valid));
    return TRINE_OK;
}

static trine_status head(warm *w) {
    const gpt_shape *s = w->s;
    size_t K = gpt_loss_rows(s), rest = rows(w) % K;
    layer l = {.kind = NO_BIAS, .T = K, .N = gpt_vocab(s).rows, .K = s->C};
    TRY(product(w, &l));
    TRY(cross_entropy(w, K));
    if (!rest) return TRINE_OK;
    l.T = rest;
    TRY(product(w, &l));
    return cross_entropy(w, rest);
}

/* ---- What a block has beside its products ---- */

/* Attention of one sample: more are more blocks of the same kernels. */
static trine_status attention(warm *w, const dropout_args *drop) {
    const ops *o = w->d->ops;
    const gpt_shape *s = w->s;
    size_t T = s->T, H = s->H / (size_t)s->tp, D = s->C / s->H;
    begin(w);
    void *qkv = numbers(w, 3 * T * H * D), *dqkv = numbers(w, 3 * T * H * D);
    void *y = numbers(w, T * H * D), *dy = numbers(w, T * H * D);
    float *lse = floats(w, H * T);
    void *work = bytes(w, o->attention_workspace(w->d, 1, T, H, D));
    if (!w->base) return TRINE_OK;
    TRY(o->attention_forward(w->d, y, lse, qkv, work, drop, 1, T, H, D));
    TRY(o->attention_backward(w->d, dqkv, dy, qkv, y, lse, work, drop, 1, T, H, D));
    return TRINE_OK;
}

static trine_status attentions(warm *w) {
    const dropout_args drop = {.p = (float)w->s->attention_dropout, .T = w->s->T};
    TRY(attention(w, NULL)); /* an evaluation drops nothing */
    return drop.p > 0 ? attention(w, &drop) : TRINE_OK;
}

static trine_status norm(warm *w) {
    const ops *o = w->d->ops;
    size_t R = gpt_rows(w->s).count, C = w->s->C;
    begin(w);
    void *x = numbers(w, R * C), *y = numbers(w, R * C), *dx = numbers(w, R * C);
    void *gain = numbers(w, C), *bias = numbers(w, C);
    void *dgain = gradients(w, C), *dbias = gradients(w, C);
    float *stat = floats(w, 2 * R);
    if (!w->base) return TRINE_OK;
    TRY(o->norm_forward(w->d, y, stat, gain, bias, x, R, C));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->norm_backward(w->d, dx, dgain, dbias, y, gain, x, stat, R, C, mode, mode));
    return TRINE_OK;
}

static trine_status gelu(warm *w) {
    size_t n = rows(w) * w->s->F / (size_t)w->s->tp;
    begin(w);
    void *x = numbers(w, n), *y = numbers(w, n);
    if (!w->base) return TRINE_OK;
    TRY(w->d->ops->gelu_forward(w->d, y, x, n));
    TRY(w->d->ops->gelu_backward(w->d, y, y, x, n));
    return TRINE_OK;
}

static trine_status residual(warm *w) {
    const ops *o = w->d->ops;
    size_t R = gpt_rows(w->s).count, C = w->s->C;
    const dropout_args drop = {.p = (float)w->s->hidden_dropout, .T = w->s->T};
    begin(w);
    void *x = numbers(w, R * C), *y = numbers(w, R * C), *bias = numbers(w, C);
    if (!w->base) return TRINE_OK;
    TRY(o->bias_residual(w->d, y, bias, x, R, C));
    if (drop.p <= 0) return TRINE_OK;
    TRY(o->dropout_residual(w->d, y, bias, x, &drop, R, C));
    TRY(o->dropout(w->d, y, x, &drop, R, C));
    return TRINE_OK;
}

/* ---- The embedding and a step's end ---- */

static trine_status embedding(warm *w) {
    const ops *o = w->d->ops;
    const gpt_shape *s = w->s;
    tp_vocab own = gpt_vocab(s);
    size_t N = rows(w), C = s->C;
    begin(w);
    void *x = numbers(w, N * C), *table = numbers(w, own.rows * C), *places = numbers(w, s->T * C);
    void *dtable = gradients(w, own.rows * C), *dplaces = gradients(w, s->T * C);
    int32_t *ids = tokens(w, N);
    tp_rows r = gpt_rows(s);
    if (!w->base) return TRINE_OK;
    TRY(o->embedding_forward(w->d, x, table, ids, 0, N, C, own.valid));
    TRY(o->position_forward(w->d, x, places, r.first, r.count, s->T, C));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++) {
        TRY(o->position_backward(w->d, dplaces, x, r.first, r.count, s->T, C, mode));
        TRY(o->embedding_backward(w->d, dtable, x, ids, 0, N, C, own.valid, mode));
    }
    return TRINE_OK;
}

/* Of some elements: the length changes no kernel. */
static trine_status update(warm *w) {
    enum { SOME = 4096 };
    const adamw_args args = {.step = 1};
    begin(w);
    float *master = floats(w, SOME), *m = floats(w, SOME), *v = floats(w, SOME);
    void *copy = w->d->compute == TRINE_F32 ? NULL : numbers(w, SOME);
    void *g = gradients(w, SOME), *h = gradients(w, SOME);
    double *sum = bytes(w, sizeof *sum);
    if (!w->base) return TRINE_OK;
    TRY(w->d->ops->add(w->d, g, h, SOME));
    TRY(ops_sum_squares(w->d, sum, g, SOME));
    TRY(ops_adamw(w->d, master, m, v, copy, g, SOME, &args));
    return TRINE_OK;
}

static trine_status walk(warm *w) {
    static trine_status (*const all[])(warm * w) = {block_products, attentions, norm, gelu,
                                                    residual,       embedding,  head, update};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) TRY(all[i](w));
    return TRINE_OK;
}

trine_status warm_up(device *d, const gpt_shape *s) {
    warm w = {.d = d, .s = s};
    if (d->memory->host) return TRINE_OK;
    TRY(walk(&w));
    TRY(device_alloc(d, &w.base, w.most));
    trine_status status = walk(&w);
    if (status == TRINE_OK) status = device_wait(d);
    device_free(d, w.base, w.most);
    return status;
}
