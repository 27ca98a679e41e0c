/* TEST np=0 device */
/* Every operator that has a backward pass, on every device: the forward pass against the formula
 * in double, the backward pass against central differences of that formula, both for the scalar
 * L = sum of weight * output. Outputs are pre-filled, so that `=` and `+=` cannot be confused. */
#include "base/rng.h"
#include "device/dropout.h"
#include "ops/staged.h"

typedef struct problem problem;
struct problem {
    const char *name;
    size_t dims[5];
    void (*formula)(const problem *p, double *y, const double *in);
    void (*forward)(device *d, const problem *p, float *y, const float *in);
    /* `grad` has the layout of `in` and the pre-filled values. */
    void (*backward)(device *d, const problem *p, float *grad, const float *dy, const float *in,
                     grad_mode mode);
    size_t in, out;
    size_t sets_before; /* gradients of inputs [0, sets_before) are `=`, the others `(+)=` */
};

/* ---- linear: in = x (T, K), w (N, K), bias (N) ---- */

static void linear_formula(const problem *p, double *y, const double *x) {
    size_t T = p->dims[0], N = p->dims[1], K = p->dims[2];
    const double *w = x + T * K, *bias = w + N * K;
    for (size_t i = 0; i < T * N; i++) {
        y[i] = bias[i % N];
        for (size_t k = 0; k < K; k++) y[i] += x[i / N * K + k] * w[i % N * K + k];
    }
}

static void linear_forward(device *d, const problem *p, float *y, const float *x) {
    size_t T = p->dims[0], N = p->dims[1], K = p->dims[2];
    OK(d->ops->linear_forward(d, y, x + T * K, x + T * K + N * K, x, T, N, K));
}

static void linear_backward(device *d, const problem *p, float *dx, const float *dy, const float *x,
                            grad_mode mode) {
    size_t T = p->dims[0], N = p->dims[1], K = p->dims[2];
    float *dw = dx + T * K, *dbias = dw + N * K;
    OK(d->ops->linear_backward_input(d, dx, x + T * K, dy, T, N, K));
    OK(d->ops->linear_backward_weight(d, dw, dbias, dy, x, T, N, K, mode));
}

/* ---- bias: in = bias (N); the rows to which it is added are 0.25 and 0.5 ---- */

static void bias_formula(const problem *p, double *y, const double *bias) {
    size_t T = p->dims[0], N = p->dims[1];
    for (size_t i = 0; i < T * N; i++) y[i] = 0.25 + bias[i % N] + 0.5;
}

static void bias_forward(device *d, const problem *p, float *y, const float *bias) {
    size_t T = p->dims[0], N = p->dims[1];
    float *residual = fixture_bytes(T * N * sizeof(float));
    for (size_t i = 0; i < T * N; i++) y[i] = 0.25f, residual[i] = 0.5f;
    OK(d->ops->bias_residual(d, y, bias, residual, T, N));
    free(residual);
}

static void bias_backward(device *d, const problem *p, float *dbias, const float *dy,
                          const float *bias, grad_mode mode) {
    (void)bias;
    OK(d->ops->bias_backward(d, dbias, dy, p->dims[0], p->dims[1], mode));
}

/* ---- dropout of (y + bias), and a residual: in = y (T, N), bias (N), residual (T, N) ---- */

static const dropout_args residual_drop = {.p = 0.4f, .key = 78, .sample = 4, .first = 1, .T = 2};

static void dropout_formula(const problem *p, double *y, const double *x) {
    size_t T = p->dims[0], N = p->dims[1];
    const double *bias = x + T * N, *residual = bias + N;
    for (size_t i = 0; i < T * N; i++) {
        size_t row = residual_drop.first + i / N;
        double f = (double)dropout_factor(&residual_drop, residual_drop.sample + row / 2,
                                          row % 2 * N + i % N);
        y[i] = (x[i] + bias[i % N]) * f + residual[i];
    }
}

static void dropout_forward(device *d, const problem *p, float *y, const float *x) {
    size_t T = p->dims[0], N = p->dims[1];
    memcpy(y, x, T * N * sizeof *y);
    OK(d->ops->dropout_residual(d, y, x + T * N, x + T * N + N, &residual_drop, T, N));
}

/* As in a model: the gradient of the residual is dy itself, that of the bias includes the dropout. */
static void dropout_backward(device *d, const problem *p, float *dx, const float *dy,
                             const float *x, grad_mode mode) {
    size_t T = p->dims[0], N = p->dims[1];
    float *dbias = dx + T * N, *residual = dbias + N;
    (void)x;
    OK(d->ops->dropout(d, dx, dy, &residual_drop, T, N));
    OK(d->ops->bias_backward(d, dbias, dx, T, N, mode));
    for (size_t i = 0; i < T * N; i++) residual[i] = dy[i] + (mode == GRAD_SET ? 0.0f : 1.0f);
}

/* ---- norm: in = x (T, C), gain (C), bias (C) ---- */

static void norm_formula(const problem *p, double *y, const double *x) {
    size_t T = p->dims[0], C = p->dims[1];
    const double *gain = x + T * C, *bias = gain + C;
    for (size_t t = 0; t < T; t++, x += C, y += C) {
        double mean = 0.0, square = 0.0;
        for (size_t c = 0; c < C; c++) mean += x[c] / (double)C, square += x[c] * x[c] / (double)C;
        for (size_t c = 0; c < C; c++)
            y[c] = (x[c] - mean) / sqrt(square - mean * mean + 1e-5) * gain[c] + bias[c];
    }
}

static void norm_forward(device *d, const problem *p, float *y, const float *x) {
    size_t T = p->dims[0], C = p->dims[1];
    float *stat = fixture_bytes(2 * T * sizeof(float));
    OK(d->ops->norm_forward(d, y, stat, x + T * C, x + T * C + C, x, T, C));
    free(stat);
}

static void norm_backward(device *d, const problem *p, float *dx, const float *dy, const float *x,
                          grad_mode mode) {
    size_t T = p->dims[0], C = p->dims[1];
    float *stat = fixture_bytes(2 * T * sizeof(float)), *y = fixture_bytes(T * C * sizeof(float));
    OK(d->ops->norm_forward(d, y, stat, x + T * C, x + T * C + C, x, T, C));
    OK(d->ops->norm_backward(d, dx, dx + T * C, dx + T * C + C, dy, x + T * C, x, stat, T, C, mode,
                             mode));
    free(stat);
    free(y);
}

/* ---- rms_norm: in = x (T, C), gain (C) ---- */

static const float rms_eps = 0.0625f; /* large, so that it counts */

/* y (D) = x (D) / sqrt(mean(x^2) + eps) * gain (D) */
static void rms_row(double *y, const double *x, const double *gain, size_t D) {
    double square = 0.0;
    for (size_t i = 0; i < D; i++) square += x[i] * x[i] / (double)D;
    for (size_t i = 0; i < D; i++) y[i] = x[i] / sqrt(square + (double)rms_eps) * gain[i];
}

static void rms_norm_formula(const problem *p, double *y, const double *x) {
    size_t T = p->dims[0], C = p->dims[1];
    for (size_t t = 0; t < T; t++) rms_row(y + t * C, x + t * C, x + T * C, C);
}

static void rms_norm_forward(device *d, const problem *p, float *y, const float *x) {
    size_t T = p->dims[0], C = p->dims[1];
    float *stat = fixture_bytes(T * sizeof(float));
    OK(d->ops->rms_norm_forward(d, y, stat, x + T * C, x, rms_eps, T, C));
    free(stat);
}

static void rms_norm_backward(device *d, const problem *p, float *dx, const float *dy,
                              const float *x, grad_mode mode) {
    size_t T = p->dims[0], C = p->dims[1];
    float *stat = fixture_bytes(T * sizeof(float)), *y = fixture_bytes(T * C * sizeof(float));
    OK(d->ops->rms_norm_forward(d, y, stat, x + T * C, x, rms_eps, T, C));
    OK(d->ops->rms_norm_backward(d, dx, dx + T * C, dy, x + T * C, x, stat, T, C, mode, mode));
    free(stat);
    free(y);
}

/* ---- qk_norm: in = x (T, H + 2 K, D), q_gain (D), k_gain (D) ---- */

static size_t qk_norm_size(const problem *p) {
    return p->dims[0] * (p->dims[1] + 2 * p->dims[2]) * p->dims[3];
}

static void qk_norm_formula(const problem *p, double *y, const double *x) {
    size_t H = p->dims[1], K = p->dims[2], D = p->dims[3], n = qk_norm_size(p);
    const double *q_gain = x + n, *k_gain = q_gain + D;
    for (size_t i = 0; i < n; i += D) {
        size_t head = i / D % (H + 2 * K);
        if (head < H + K) rms_row(y + i, x + i, head < H ? q_gain : k_gain, D);
        for (size_t j = i; head >= H + K && j < i + D; j++) y[j] = x[j];
    }
}

static void qk_norm_both(device *d, const problem *p, float *y, float *dx, const float *dy,
                         const float *x, grad_mode mode) {
    size_t T = p->dims[0], H = p->dims[1], K = p->dims[2], D = p->dims[3], n = qk_norm_size(p);
    float *stat = fixture_bytes(T * (H + K) * sizeof(float));
    OK(d->ops->qk_norm_forward(d, y, stat, x + n, x + n + D, x, rms_eps, T, H, K, D));
    if (dx)
        OK(d->ops->qk_norm_backward(d, dx, dx + n, dx + n + D, dy, x + n, x + n + D, x, stat, T, H,
                                    K, D, mode));
    free(stat);
}

static void qk_norm_forward(device *d, const problem *p, float *y, const float *x) {
    qk_norm_both(d, p, y, NULL, NULL, x, GRAD_SET);
}

static void qk_norm_backward(device *d, const problem *p, float *dx, const float *dy,
                             const float *x, grad_mode mode) {
    float *y = fixture_bytes(p->out * sizeof(float));
    qk_norm_both(d, p, y, dx, dy, x, mode);
    free(y);
}

/* ---- swiglu: in = x (T, 2, F) ---- */

static void swiglu_formula(const problem *p, double *y, const double *x) {
    size_t T = p->dims[0], F = p->dims[1];
    for (size_t i = 0; i < T * F; i++) {
        const double *gate = x + i / F * 2 * F + i % F;
        y[i] = gate[0] / (1.0 + exp(-gate[0])) * gate[F];
    }
}

static void swiglu_forward(device *d, const problem *p, float *y, const float *x) {
    OK(d->ops->swiglu_forward(d, y, x, p->dims[0], p->dims[1]));
}

static void swiglu_backward(device *d, const problem *p, float *dx, const float *dy, const float *x,
                            grad_mode mode) {
    (void)mode;
    OK(d->ops->swiglu_backward(d, dx, dy, x, p->dims[0], p->dims[1]));
}

/* ---- gelu: in = x (n) ---- */

static void gelu_formula(const problem *p, double *y, const double *x) {
    for (size_t i = 0; i < p->dims[0]; i++)
        y[i] =
            0.5 * x[i] * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x[i] + 0.044715 * pow(x[i], 3.0))));
}

static void gelu_forward(device *d, const problem *p, float *y, const float *x) {
    OK(d->ops->gelu_forward(d, y, x, p->dims[0]));
}

static void gelu_backward(device *d, const problem *p, float *dx, const float *dy, const float *x,
                          grad_mode mode) {
    (void)mode;
    OK(d->ops->gelu_backward(d, dx, dy, x, p->dims[0]));
}

/* ---- attention: in = qkv (B, T, H + 2 K, D) ---- */

static double attention_score(const double *q, const double *k, size_t D) {
    double sum = 0.0;
    for (size_t i = 0; i < D; i++) sum += q[i] * k[i];
    return exp(sum / sqrt((double)D));
}

/* As specified in ops.h: of sample `sample` and head `head`, numbered over all tp ranks. */
static double attention_kept(const dropout_args *drop, uint64_t sample, uint64_t head, size_t t,
                             size_t s, size_t T) {
    const uint64_t element = (head * T + t) * T + s, block = element / 4;
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)sample,
                                 (uint32_t)(sample >> 32)};
    const uint32_t key[2] = {(uint32_t)drop->key, (uint32_t)(drop->key >> 32)};
    uint32_t words[4];
    rng_philox4x32(words, counter, key);
    double p = (double)drop->p;
    return (double)words[element % 4] >= floor(p * 0x1p32) ? 1.0 / (1.0 - p) : 0.0;
}

static void attention_rows(const problem *p, double *y, const double *qkv,
                           const dropout_args *drop) {
    size_t B = p->dims[0], T = p->dims[1], H = p->dims[2], D = p->dims[3], K = p->dims[4];
    size_t row = (H + 2 * K) * D;
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < T; t++)
            for (size_t h = 0; h < H; h++, y += D) {
                const double *sample = qkv + b * T * row, *q = sample + t * row + h * D;
                const double *k = sample + (H + h * K / H) * D, *v = k + K * D;
                double denominator = 0.0;
                for (size_t i = 0; i < D; i++) y[i] = 0.0;
                for (size_t s = 0; s <= t; s++) {
                    double e = attention_score(q, k + s * row, D);
                    denominator += e;
                    if (drop) e *= attention_kept(drop, drop->sample + b, drop->first + h, t, s, T);
                    for (size_t i = 0; i < D; i++) y[i] += e * v[s * row + i];
                }
                for (size_t i = 0; i < D; i++) y[i] /= denominator;
            }
}

static void attention_both(device *d, const problem *p, float *y, float *dqkv, const float *dy,
                           const float *qkv, const dropout_args *drop) {
    size_t B = p->dims[0], T = p->dims[1], H = p->dims[2], D = p->dims[3], K = p->dims[4];
    float *lse = fixture_bytes(B * H * T * sizeof(float));
    void *work = fixture_bytes(d->ops->attention_workspace(d, B, T, H, K, D));
    OK(d->ops->attention_forward(d, y, lse, qkv, NULL, work, drop, B, T, H, K, D));
    if (dqkv)
        OK(d->ops->attention_backward(d, dqkv, dy, qkv, y, lse, NULL, work, drop, B, T, H, K, D));
    free(lse);
    free(work);
}

static void attention_dqkv(device *d, const problem *p, float *dqkv, const float *dy,
                           const float *qkv, const dropout_args *drop) {
    float *y = fixture_bytes(p->out * sizeof(float));
    attention_both(d, p, y, dqkv, dy, qkv, drop);
    free(y);
}

static void attention_formula(const problem *p, double *y, const double *qkv) {
    attention_rows(p, y, qkv, NULL);
}

static void attention_forward(device *d, const problem *p, float *y, const float *qkv) {
    attention_both(d, p, y, NULL, NULL, qkv, NULL);
}

static void attention_backward(device *d, const problem *p, float *dqkv, const float *dy,
                               const float *qkv, grad_mode mode) {
    (void)mode;
    attention_dqkv(d, p, dqkv, dy, qkv, NULL);
}

/* Both halves of key and sample are nonzero, and the first head is not 0. p is a float. */
static const dropout_args dropped = {
    .p = 0.25f, .key = UINT64_C(0x0123456789ABCDEF), .sample = UINT64_C(0x5000000003), .first = 7};

static void attention_dropout_formula(const problem *p, double *y, const double *qkv) {
    attention_rows(p, y, qkv, &dropped);
}

static void attention_dropout_forward(device *d, const problem *p, float *y, const float *qkv) {
    attention_both(d, p, y, NULL, NULL, qkv, &dropped);
}

static void attention_dropout_backward(device *d, const problem *p, float *dqkv, const float *dy,
                                       const float *qkv, grad_mode mode) {
    (void)mode;
    attention_dqkv(d, p, dqkv, dy, qkv, &dropped);
}

/* ---- embedding: in = table (V, C); a shard that starts at token 3 ---- */

static const int32_t tokens[] = {3, 5, 0, 4, 5, 5, 9, 3, 2, 6, -1};

static void embedding_formula(const problem *p, double *x, const double *table) {
    size_t T = p->dims[0], C = p->dims[1], V = p->dims[2];
    for (size_t i = 0; i < T * C; i++) {
        int32_t row = tokens[i / C] - 3;
        x[i] = row >= 0 && row < (int32_t)V ? table[(size_t)row * C + i % C] : 0.0;
    }
}

static void embedding_forward(device *d, const problem *p, float *x, const float *table) {
    OK(d->ops->embedding_forward(d, x, table, tokens, 3, p->dims[0], p->dims[1], p->dims[2]));
}

static void embedding_backward(device *d, const problem *p, float *dtable, const float *dx,
                               const float *table, grad_mode mode) {
    (void)table;
    OK(d->ops->embedding_backward(d, dtable, dx, tokens, 3, p->dims[0], p->dims[1], p->dims[2],
                                  mode));
}

/* ---- position: in = table (T, C); added to rows of 0.25 ---- */

static void position_formula(const problem *p, double *x, const double *table) {
    size_t B = p->dims[0], T = p->dims[1], C = p->dims[2];
    for (size_t i = 0; i < B * T * C; i++) x[i] = 0.25 + table[i % (T * C)];
}

static void position_forward(device *d, const problem *p, float *x, const float *table) {
    for (size_t i = 0; i < p->out; i++) x[i] = 0.25f;
    OK(d->ops->position_forward(d, x, table, NULL, 0, p->dims[0] * p->dims[1], p->dims[1],
                                p->dims[2]));
}

static void position_backward(device *d, const problem *p, float *dtable, const float *dx,
                              const float *table, grad_mode mode) {
    (void)table;
    OK(d->ops->position_backward(d, dtable, dx, NULL, 0, p->dims[0] * p->dims[1], p->dims[1],
                                 p->dims[2], mode));
}

/* ---- rope: in = x (rows, heads, D), of which all heads but the last are rotated; row 0 is row 2 of the
 * micro-batch, and there are 3 positions ---- */

enum { ROPE_FIRST = 2, ROPE_T = 3 };

/* Any angles: pair i of position t turns by (t + 1) / (i + 2). */
static double rope_angle(size_t t, size_t i) {
    return (double)(t + 1) / (double)(i + 2);
}

static void rope_formula(const problem *p, double *y, const double *x) {
    size_t heads = p->dims[1], D = p->dims[2];
    for (size_t i = 0; i < p->in; i++) {
        size_t row = i / (heads * D), head = i / D % heads, e = i % D, pair = e % (D / 2);
        double angle = rope_angle((ROPE_FIRST + row) % ROPE_T, pair);
        const double *a = x + i - e + pair, *b = a + D / 2;
        y[i] = head == heads - 1 ? x[i]
               : e < D / 2       ? *a * cos(angle) - *b * sin(angle)
                                 : *b * cos(angle) + *a * sin(angle);
    }
}

static void rope_turn(device *d, const problem *p, float *x, bool inverse) {
    size_t rows = p->dims[0], heads = p->dims[1], D = p->dims[2];
    float *table = fixture_bytes(ROPE_T * D * sizeof *table);
    for (size_t i = 0; i < ROPE_T * D; i++) {
        double angle = rope_angle(i / D, i % D % (D / 2));
        table[i] = (float)(i % D < D / 2 ? cos(angle) : sin(angle));
    }
    OK(d->ops->rope(d, x, table, NULL, inverse, ROPE_FIRST, rows, ROPE_T, heads, heads - 1, D));
    free(table);
}

static void rope_forward(device *d, const problem *p, float *y, const float *x) {
    memcpy(y, x, p->in * sizeof *y);
    rope_turn(d, p, y, false);
}

static void rope_backward(device *d, const problem *p, float *dx, const float *dy, const float *x,
                          grad_mode mode) {
    (void)mode, (void)x;
    memcpy(dx, dy, p->in * sizeof *dx);
    rope_turn(d, p, dx, true);
}

/* ---- cross-entropy: in = logits (T, V), the first `valid` columns real; out = the loss ---- */

static const int32_t targets[] = {4, 6, 5, 4, 8, 7, 5};

static void xent_formula(const problem *p, double *loss, const double *logits) {
    size_t T = p->dims[0], V = p->dims[1], valid = p->dims[2];
    *loss = 0.0;
    for (size_t t = 0; t < T; t++) {
        double sum = 0.0;
        for (size_t v = 0; v < valid; v++) sum += exp(logits[t * V + v]);
        *loss += log(sum) - logits[t * V + (size_t)targets[t] - 4];
    }
}

static void xent_both(device *d, const problem *p, double *loss, float *logits, float scale) {
    size_t T = p->dims[0], V = p->dims[1], valid = p->dims[2];
    float *max = fixture_bytes(T * sizeof(float)), *sums = fixture_bytes(2 * T * sizeof(float));
    OK(d->ops->xent_forward(d, max, sums, logits, targets, 4, T, V, valid));
    OK(d->ops->xent_loss(d, loss, max, sums, targets, 1.0, T));
    OK(d->ops->xent_backward(d, logits, max, sums, targets, 4, scale, T, V, valid));
    free(max);
    free(sums);
}

static void xent_forward(device *d, const problem *p, float *y, const float *logits) {
    float *copy = fixture_copy(logits, p->in);
    double loss = 0.5; /* `+=` */
    xent_both(d, p, &loss, copy, 1.0f);
    *y = (float)(loss - 0.5);
    free(copy);
}

static void xent_backward(device *d, const problem *p, float *dlogits, const float *dloss,
                          const float *logits, grad_mode mode) {
    (void)mode;
    double loss = 0.0;
    memcpy(dlogits, logits, p->in * sizeof *logits);
    xent_both(d, p, &loss, dlogits, *dloss);
}

/* ---- the table and the check ---- */

#define NAMED(op) op##_formula, op##_forward, op##_backward

static const problem problems[] = {
    {"linear", {5, 7, 3}, NAMED(linear), 5 * 3 + 7 * 3 + 7, 5 * 7, 5 * 3},
    {"linear of one", {1, 1, 1}, NAMED(linear), 3, 1, 1},
    {"bias", {6, 5}, NAMED(bias), 5, 6 * 5, 0},
    {"dropout", {5, 6}, NAMED(dropout), 2 * 5 * 6 + 6, 5 * 6, 5 * 6},
    {"norm", {4, 19}, NAMED(norm), 6 * 19, 4 * 19, 0},
    {"norm of two columns", {3, 2}, NAMED(norm), 5 * 2, 3 * 2, 0},
    {"rms_norm", {4, 19}, NAMED(rms_norm), 5 * 19, 4 * 19, 0},
    {"rms_norm of one column", {3, 1}, NAMED(rms_norm), 4, 3, 0},
    {"qk_norm", {3, 4, 2, 6}, NAMED(qk_norm), 3 * 8 * 6 + 12, 3 * 8 * 6, 3 * 8 * 6},
    {"swiglu", {3, 7}, NAMED(swiglu), 3 * 2 * 7, 3 * 7, 3 * 2 * 7},
    {"gelu", {37}, NAMED(gelu), 37, 37, 37},
    {"attention", {2, 6, 2, 5, 2}, NAMED(attention), 2 * 6 * 3 * 10, 2 * 6 * 10, 2 * 6 * 3 * 10},
    {"attention, longer", {1, 19, 1, 4, 1}, NAMED(attention), 19 * 12, 19 * 4, 19 * 12},
    {"attention, K 1", {2, 6, 3, 5, 1}, NAMED(attention), 2 * 6 * 25, 2 * 6 * 15, 2 * 6 * 25},
    {"attention, K 2", {1, 35, 4, 4, 2}, NAMED(attention), 35 * 32, 35 * 16, 35 * 32},
    {"attention, K 2, dropout",
     {2, 5, 6, 3, 2},
     NAMED(attention_dropout),
     2 * 5 * 30,
     2 * 5 * 18,
     2 * 5 * 30},
    {"attention, dropout",
     {2, 6, 2, 5, 2},
     NAMED(attention_dropout),
     2 * 6 * 3 * 10,
     2 * 6 * 10,
     2 * 6 * 3 * 10},
    {"attention, dropout, longer",
     {1, 36, 1, 4, 1},
     NAMED(attention_dropout),
     36 * 12,
     36 * 4,
     36 * 12},
    {"embedding", {11, 3, 3}, NAMED(embedding), 3 * 3, 11 * 3, 0},
    {"position", {3, 2, 5}, NAMED(position), 2 * 5, 3 * 2 * 5, 0},
    {"rope", {7, 3, 6}, NAMED(rope), 7 * 3 * 6, 7 * 3 * 6, 7 * 3 * 6},
    {"cross-entropy", {7, 9, 5}, NAMED(xent), 7 * 9, 1, 7 * 9},
};

static double weighted(const problem *p, double *y, const double *in, const float *weight) {
    double sum = 0.0;
    p->formula(p, y, in);
    for (size_t i = 0; i < p->out; i++) sum += y[i] * (double)weight[i];
    return sum;
}

/* A step of 2^-12 leaves a truncation error of step^2 / 6 times the third derivative, 1e-8 where
 * that is 1, and a cancellation of 1e-16 / step: both below half an EPS. */
static void differences(const problem *p, float *grad, const float *in, const float *weight,
                        grad_mode mode) {
    const double step = 0x1p-12;
    double *x = fixture_bytes(p->in * sizeof *x), *y = fixture_bytes(p->out * sizeof *y);
    for (size_t i = 0; i < p->in; i++) x[i] = (double)in[i];
    for (size_t i = 0; i < p->in; i++) {
        x[i] = (double)in[i] + step;
        double up = weighted(p, y, x, weight);
        x[i] = (double)in[i] - step;
        double down = weighted(p, y, x, weight);
        x[i] = (double)in[i];
        double fill = i < p->sets_before || mode == GRAD_SET ? 0.0 : 1.0;
        grad[i] = (float)(fill + (up - down) / (2.0 * step));
    }
    free(x);
    free(y);
}

/* In units of EPS. ref computes in double and rounds once, half a unit; its backward pass also
 * reads rounded statistics (mean, rstd, lse). cpu makes about 20 roundings of numbers up to about 2,
 * of random sign, and its statistics enter the backward pass with factors up to about 4. */
typedef struct {
    double forward, backward;
} bounds;

/* n random numbers of the device's type. */
static float *numbers(const device *d, size_t n, uint64_t seed, double spread) {
    float *x = fixture_random(n, seed, spread);
    for (size_t i = 0; i < n; i++) {
        if (d->compute == TRINE_BF16) x[i] = bf16_load(bf16_store(x[i]));
        if (d->compute == TRINE_F16) x[i] = f16_load(f16_store(x[i]));
    }
    return x;
}

static void check_forward(device *d, const problem *p, const float *in, double bound) {
    double *x = fixture_bytes(p->in * sizeof *x), *y = fixture_bytes(p->out * sizeof *y);
    float *want = fixture_random(p->out, 0, 0.0), *got = fixture_random(p->out, 1, 1.0);
    for (size_t i = 0; i < p->in; i++) x[i] = (double)in[i];
    p->formula(p, y, x);
    for (size_t i = 0; i < p->out; i++) want[i] = (float)y[i];
    p->forward(d, p, got, in);
    fixture_near(p->name, got, want, p->out, bound * EPS, 1.0);
    free(x), free(y), free(want), free(got);
}

static void check_backward(device *d, const problem *p, const float *in, double bound,
                           grad_mode mode) {
    float *weight = numbers(d, p->out, 2, 1.0);
    float *want = fixture_random(p->in, 0, 0.0), *got = fixture_random(p->in, 0, 0.0);
    for (size_t i = 0; i < p->in; i++) got[i] = 1.0f;
    differences(p, want, in, weight, mode);
    p->backward(d, p, got, weight, in, mode);
    fixture_near(p->name, got, want, p->in, bound * EPS, 1.0);
    free(weight), free(want), free(got);
}

static void check(device *d, bounds b) {
    const char *only = getenv("TRINE_PROBLEM"); /* a name: this one alone */
    bool found = false;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        if (only && strcmp(only, problems[i].name) != 0) continue;
        found = true;
        float *in = numbers(d, problems[i].in, i + 10, 1.5);
        check_forward(d, &problems[i], in, b.forward);
        check_backward(d, &problems[i], in, b.backward, GRAD_ADD);
        check_backward(d, &problems[i], in, b.backward, GRAD_SET);
        free(in);
    }
    assert_true(found);
}

static void ref_follows_the_formulas(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_REF, 2));
    check(d, (bounds){1.0, 2.0});
    device_close(&d);
    assert_null(d);
}

/* Half a unit in the last place is at most 2^-8 of a number in bf16, 2^-11 in fp16, and of 1 +
 * |want| less than that; in addition to the bound in fp32. Attention's backward pass reads a
 * rounded y, whose product with dy (T terms of at most 1.5 with factors of up to 1) goes into all
 * that it writes, and dropout's bias adds T rounded rows: four halves. */
static void ref_follows_the_formulas_in_16_bits(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        trine_dtype type = i < 2 ? TRINE_BF16 : TRINE_F16;
        const device_config config = {
            .kind = DEVICE_REF, .threads = 1, .compute = type, .grads = i % 2 ? type : TRINE_F32};
        double half = (type == TRINE_BF16 ? 0x1p-8 : 0x1p-11) / EPS;
        char why[256];
        device *d = staged_open_host(&config, why, sizeof why);
        assert_non_null(d);
        check(d, (bounds){1.0 + half, 2.0 + 4.0 * half});
        staged_close(&d);
    }
}

static void cpu_follows_the_formulas(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 2));
    check(d, (bounds){8.0, 20.0});
    device_close(&d);
}

/* The emulation and GPUs; sums are in fp32 as on the processor, so its bounds apply. */
static void cuda_follows_the_formulas(void **state) {
    (void)state;
    for (staged_kind kind = 0; kind < STAGED_KINDS; kind++) {
        char why[256];
        device *d = staged_open(kind, why, sizeof why);
        if (!d) {
            print_message("# not tested: %s\n", why);
            continue;
        }
        check(d, (bounds){8.0, 20.0});
        staged_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_follows_the_formulas),
        cmocka_unit_test(ref_follows_the_formulas_in_16_bits),
        cmocka_unit_test(cpu_follows_the_formulas),
        cmocka_unit_test(cuda_follows_the_formulas),
    };
    return HARNESS_RUN_ALONE(tests);
}
