/* Every operator of the table as a function from one flat input to one flat output, with its test
 * shapes: one element, odd sizes, sizes of GPT-2, empty ones, shards of a vocabulary,
 * and products that are large enough for the library's other kernel (cpu/dnnl.c).
 * Outputs are pre-filled, to distinguish `=` from `+=`. The rows are used by three tests: cpu against ref,
 * NaN against ref, and threads against each other. */
#ifndef TRINE_TESTS_OPS_CASES_H
#define TRINE_TESTS_OPS_CASES_H

#include "ops/staged.h"

#define MAX_SHAPES 32

typedef struct {
    size_t n[6];
} dims;

typedef struct {
    const char *name;
    /* Counts of floats; the last, how many terms the longest sum has. */
    void (*sizes)(const dims *s, size_t *in, size_t *out, size_t *terms);
    void (*run)(device *d, const dims *s, const float *in, float *out);
    double spread; /* of the inputs */
    bool matmul;   /* the library's result may depend on threads, unless the device has exact_threads */
    dims shapes[MAX_SHAPES];
    size_t count;
} op_case;

#define SIZES(op)                                                                                  \
    static inline void op##_sizes(const dims *s, size_t *in, size_t *out, size_t *terms)
#define RUN(op) static inline void op##_run(device *d, const dims *s, const float *in, float *out)
#define DIMS(a, b, c, e)                                                                           \
    const size_t a = s->n[0], b = s->n[1], c = s->n[2], e = s->n[3];                               \
    (void)a, (void)b, (void)c, (void)e

/* ---- linear; the last number of gradients: GRAD_ADD or GRAD_SET ---- */

SIZES(linear_y) {
    DIMS(T, N, K, unused);
    *in = T * K + N * K + N, *out = T * N, *terms = K;
}

RUN(linear_y) {
    DIMS(T, N, K, biased);
    const float *w = in + T * K, *bias = w + N * K;
    OK(d->ops->linear_forward(d, out, w, biased ? bias : NULL, in, T, N, K));
}

SIZES(linear_residual) {
    DIMS(T, N, K, unused);
    *in = T * K + N * K + N + T * N, *out = T * N, *terms = K;
}

/* If the device lacks the operator, ref computes in its place. */
RUN(linear_residual) {
    DIMS(T, N, K, biased);
    const float *w = in + T * K, *bias = w + N * K;
    device *ref = ref_of(d), *by = has_linear_residual(d) ? d : ref;
    OK(by->ops->linear_residual(by, out, w, biased ? bias : NULL, bias + N, in, T, N, K));
    each_close(&ref);
}

SIZES(linear_dx) {
    DIMS(T, N, K, unused);
    *in = T * N + N * K, *out = T * K, *terms = N;
}

RUN(linear_dx) {
    DIMS(T, N, K, unused);
    OK(d->ops->linear_backward_input(d, out, in + T * N, in, T, N, K));
}

SIZES(linear_dw) {
    DIMS(T, N, K, unused);
    *in = T * N + T * K, *out = N * K + N, *terms = T;
}

RUN(linear_dw) {
    DIMS(T, N, K, biased);
    float *dbias = biased ? out + N * K : NULL;
    grad_mode mode = (grad_mode)s->n[4];
    OK(d->ops->linear_backward_weight(d, out, dbias, in, in + T * N, T, N, K, mode));
}

/* ---- bias; the last number selects the operands ---- */

SIZES(bias_residual) {
    DIMS(T, N, which, unused);
    *in = N + T * N, *out = T * N, *terms = 1;
}

RUN(bias_residual) {
    DIMS(T, N, which, unused);
    OK(d->ops->bias_residual(d, out, which & 1 ? in : NULL, which & 2 ? in + N : NULL, T, N));
}

/* ---- dropout: rows, N, rows a sample, first row; the last number of dropout: in place, of
 * dropout_residual: with a bias ---- */

static inline dropout_args drop_of(size_t first, size_t T) {
    return (dropout_args){.p = 0.3f,
                          .key = UINT64_C(0x9E3779B97F4A7C15),
                          .sample = UINT64_C(0x100000002), /* both 32-bit halves are nonzero */
                          .first = first,
                          .T = T};
}

SIZES(dropout_residual) {
    DIMS(rows, N, T, first);
    *in = N + rows * N, *out = rows * N, *terms = 1;
}

RUN(dropout_residual) {
    DIMS(rows, N, T, first);
    const dropout_args drop = drop_of(first, T);
    OK(d->ops->dropout_residual(d, out, s->n[4] ? in : NULL, in + N, &drop, rows, N));
}

SIZES(dropout) {
    DIMS(rows, N, T, first);
    *in = *out = rows * N, *terms = 1;
}

RUN(dropout) {
    DIMS(rows, N, T, first);
    const dropout_args drop = drop_of(first, T);
    bool in_place = s->n[4];
    if (in_place && rows > 0 && N > 0) memcpy(out, in, rows * N * sizeof *in);
    OK(d->ops->dropout(d, out, in_place ? out : in, &drop, rows, N));
}

SIZES(bias_backward) {
    DIMS(T, N, unused, unused2);
    *in = T * N, *out = N, *terms = T;
}

RUN(bias_backward) {
    DIMS(T, N, mode, unused);
    OK(d->ops->bias_backward(d, out, in, T, N, (grad_mode)mode));
}

/* ---- norm: in = x (T, C), gain, bias, dy (T, C) ---- */

SIZES(norm_y) {
    DIMS(T, C, unused, unused2);
    *in = T * C + 2 * C, *out = T * C + 2 * T, *terms = C;
}

RUN(norm_y) {
    DIMS(T, C, unused, unused2);
    OK(d->ops->norm_forward(d, out, out + T * C, in + T * C, in + T * C + C, in, T, C));
}

SIZES(norm_dx) {
    DIMS(T, C, unused, unused2);
    *in = 2 * T * C + 2 * C, *out = T * C + 2 * C, *terms = C > T ? C : T;
}

RUN(norm_dx) {
    DIMS(T, C, stream, mode);
    const float *gain = in + T * C, *bias = gain + C, *dy = bias + C;
    float *stat = fixture_bytes(2 * T * sizeof *stat), *y = fixture_bytes(T * C * sizeof *y);
    OK(d->ops->norm_forward(d, y, stat, gain, bias, in, T, C));
    OK(d->ops->norm_backward(d, out, out + T * C, out + T * C + C, dy, gain, in, stat, T, C,
                             (grad_mode)stream, (grad_mode)mode));
    free(stat), free(y);
}

/* ---- rms_norm: in = x (T, C), gain, dy (T, C) ---- */

#define RMS_EPS 0.01f /* large, so that it counts */

SIZES(rms_norm_y) {
    DIMS(T, C, unused, unused2);
    *in = T * C + C, *out = T * C + T, *terms = C;
}

RUN(rms_norm_y) {
    DIMS(T, C, unused, unused2);
    OK(d->ops->rms_norm_forward(d, out, out + T * C, in + T * C, in, RMS_EPS, T, C));
}

SIZES(rms_norm_dx) {
    DIMS(T, C, unused, unused2);
    *in = 2 * T * C + C, *out = T * C + C, *terms = C > T ? C : T;
}

RUN(rms_norm_dx) {
    DIMS(T, C, stream, mode);
    const float *gain = in + T * C, *dy = gain + C;
    float *stat = fixture_bytes(T * sizeof *stat), *y = fixture_bytes(T * C * sizeof *y);
    OK(d->ops->rms_norm_forward(d, y, stat, gain, in, RMS_EPS, T, C));
    OK(d->ops->rms_norm_backward(d, out, out + T * C, dy, gain, in, stat, T, C, (grad_mode)stream,
                                 (grad_mode)mode));
    free(stat), free(y);
}

/* ---- qk_norm: in = x (T, H + 2 K, D), q_gain, k_gain, dy (T, H + 2 K, D); the last number: the mode,
 * and 2 if in place ---- */

SIZES(qk_norm_y) {
    DIMS(T, H, K, D);
    *in = T * (H + 2 * K) * D + 2 * D, *out = T * (H + 2 * K) * D + T * (H + K), *terms = D;
}

RUN(qk_norm_y) {
    DIMS(T, H, K, D);
    const size_t n = T * (H + 2 * K) * D;
    OK(d->ops->qk_norm_forward(d, out, out + n, in + n, in + n + D, in, RMS_EPS, T, H, K, D));
}

SIZES(qk_norm_dx) {
    DIMS(T, H, K, D);
    *in = 2 * T * (H + 2 * K) * D + 2 * D, *out = T * (H + 2 * K) * D + 2 * D;
    *terms = D > T * H ? D : T * H;
}

RUN(qk_norm_dx) {
    DIMS(T, H, K, D);
    const size_t n = T * (H + 2 * K) * D;
    const float *q_gain = in + n, *k_gain = q_gain + D, *dy = k_gain + D;
    bool in_place = s->n[4] & 2;
    float *stat = fixture_bytes(T * (H + K) * sizeof *stat), *y = fixture_bytes(n * sizeof *y);
    OK(d->ops->qk_norm_forward(d, y, stat, q_gain, k_gain, in, RMS_EPS, T, H, K, D));
    if (in_place && n) memcpy(out, dy, n * sizeof *dy);
    OK(d->ops->qk_norm_backward(d, out, out + n, out + n + D, in_place ? out : dy, q_gain, k_gain,
                                in, stat, T, H, K, D, (grad_mode)(s->n[4] & 1)));
    free(stat), free(y);
}

/* ---- swiglu: in = x (T, 2, F), dy (T, F) ---- */

SIZES(swiglu_y) {
    DIMS(T, F, unused, unused2);
    *in = 2 * T * F, *out = T * F, *terms = 1;
}

RUN(swiglu_y) {
    DIMS(T, F, unused, unused2);
    OK(d->ops->swiglu_forward(d, out, in, T, F));
}

SIZES(swiglu_dx) {
    DIMS(T, F, unused, unused2);
    *in = 3 * T * F, *out = 2 * T * F, *terms = 1;
}

RUN(swiglu_dx) {
    DIMS(T, F, unused, unused2);
    OK(d->ops->swiglu_backward(d, out, in + 2 * T * F, in, T, F));
}

/* ---- gelu; the second number: in place ---- */

SIZES(gelu_y) {
    *in = *out = s->n[0], *terms = 1;
}

RUN(gelu_y) {
    DIMS(n, in_place, unused, unused2);
    if (in_place && n) memcpy(out, in, n * sizeof *in);
    OK(d->ops->gelu_forward(d, out, in_place ? out : in, n));
}

SIZES(gelu_dx) {
    *in = 2 * s->n[0], *out = s->n[0], *terms = 1;
}

RUN(gelu_dx) {
    DIMS(n, in_place, unused, unused2);
    if (in_place && n) memcpy(out, in + n, n * sizeof *in);
    OK(d->ops->gelu_backward(d, out, in_place ? out : in + n, in, n));
}

/* ---- attention: in = qkv (B, T, H + 2 K, D), dy (B, T, H, D); the last numbers: with dropout; K, or 0
 * for K = H ---- */

static inline size_t kv_heads(const dims *s) {
    return s->n[5] ? s->n[5] : s->n[2];
}

static inline void attention_forward(device *d, const dims *s, const float *qkv, float *y,
                                     float *lse) {
    DIMS(B, T, H, D);
    const dropout_args drop = drop_of(5, 0); /* preceding heads */
    size_t K = kv_heads(s), bytes = d->ops->attention_workspace(d, B, T, H, K, D);
    void *work = fixture_bytes(bytes);
    memset(work, 0xff, bytes); /* NaNs: a read before the write is detected */
    OK(d->ops->attention_forward(d, y, lse, qkv, NULL, work, s->n[4] ? &drop : NULL, B, T, H, K, D));
    free(work);
}

SIZES(attention_y) {
    DIMS(B, T, H, D);
    *in = B * T * (H + 2 * kv_heads(s)) * D, *out = B * T * H * D + B * H * T, *terms = T;
}

RUN(attention_y) {
    DIMS(B, T, H, D);
    attention_forward(d, s, in, out, out + B * T * H * D);
}

/* dk and dv are sums over the rows of a group's query heads. */
SIZES(attention_dqkv) {
    DIMS(B, T, H, D);
    size_t K = kv_heads(s), rows = K ? T * (H / K) : 0;
    *in = B * T * 2 * (H + K) * D, *out = B * T * (H + 2 * K) * D, *terms = rows > D ? rows : D;
}

/* y and lse are those of ref: if y is rounded to 16 bits, another backend's y may differ by one unit. */
RUN(attention_dqkv) {
    DIMS(B, T, H, D);
    const dropout_args drop = drop_of(5, 0);
    const size_t K = kv_heads(s), n = B * T * H * D, all = B * T * (H + 2 * K) * D;
    size_t bytes = d->ops->attention_workspace(d, B, T, H, K, D);
    float *y = fixture_bytes(n * sizeof *y), *lse = fixture_bytes(B * H * T * sizeof *lse);
    void *work = fixture_bytes(bytes);
    device *ref = ref_of(d);
    attention_forward(ref, s, in, y, lse);
    each_close(&ref);
    memset(work, 0xff, bytes);
    OK(d->ops->attention_backward(d, out, in + all, in, y, lse, NULL, work, s->n[4] ? &drop : NULL, B, T,
                                  H, K, D));
    free(y), free(lse), free(work);
}

/* ---- attention with a cache: n, past, H, D, M, and K as above; in = qkv (n, H + 2 K, D), keys (K, D, M),
 * values (K, M, D); out = y (n, H, D), and both caches ---- */

SIZES(attention_cached) {
    DIMS(n, past, H, D);
    size_t K = kv_heads(s), kept = 2 * s->n[4] * K * D;
    *in = n * (H + 2 * K) * D + kept, *out = n * H * D + kept, *terms = past + n;
}

RUN(attention_cached) {
    DIMS(n, past, H, D);
    const size_t M = s->n[4], K = kv_heads(s), kept = M * K * D;
    float *keys = out + n * H * D;
    size_t bytes = d->ops->attention_workspace(d, 1, M, H, K, D);
    void *work = fixture_bytes(bytes);
    memset(work, 0xff, bytes);
    if (kept) memcpy(keys, in + n * (H + 2 * K) * D, 2 * kept * sizeof *keys);
    OK(d->ops->attention_cached(d, out, keys, keys + kept, in, work, past, n, M, H, K, D));
    free(work);
}

/* ---- embedding; tokens run over twice the shard, which starts at `first` ---- */

static inline int32_t *tokens_of(size_t T, size_t first, size_t V) {
    int32_t *tokens = fixture_bytes(T * sizeof *tokens);
    for (size_t t = 0; t < T; t++)
        tokens[t] = (int32_t)(first + (t * 7 + t * t / 5) % (2 * V + 1)) - (int32_t)(V / 2);
    return tokens;
}

SIZES(embedding_x) {
    DIMS(T, C, V, first);
    *in = V * C, *out = T * C, *terms = 1;
}

RUN(embedding_x) {
    DIMS(T, C, V, first);
    int32_t *tokens = tokens_of(T, first, V);
    OK(d->ops->embedding_forward(d, out, in, tokens, (int32_t)first, T, C, V));
    free(tokens);
}

SIZES(embedding_dtable) {
    DIMS(T, C, V, first);
    *in = T * C, *out = V * C, *terms = T;
}

RUN(embedding_dtable) {
    DIMS(T, C, V, first);
    int32_t *tokens = tokens_of(T, first, V);
    grad_mode mode = (grad_mode)s->n[4];
    OK(d->ops->embedding_backward(d, out, in, tokens, (int32_t)first, T, C, V, mode));
    free(tokens);
}

SIZES(position_x) {
    DIMS(B, T, C, unused);
    *in = T * C, *out = B * T * C, *terms = 1;
}

RUN(position_x) {
    DIMS(B, T, C, unused);
    OK(d->ops->position_forward(d, out, in, NULL, 0, B * T, T, C));
}

SIZES(position_dtable) {
    DIMS(B, T, C, unused);
    *in = B * T * C, *out = T * C, *terms = B;
}

RUN(position_dtable) {
    DIMS(B, T, C, mode);
    OK(d->ops->position_backward(d, out, in, NULL, 0, B * T, T, C, (grad_mode)mode));
}

/* Rows of a micro-batch: how many, T, C, first. */

SIZES(position_rows_x) {
    DIMS(rows, T, C, first);
    *in = T * C, *out = rows * C, *terms = 1;
}

RUN(position_rows_x) {
    DIMS(rows, T, C, first);
    OK(d->ops->position_forward(d, out, in, NULL, first, rows, T, C));
}

SIZES(position_rows_dtable) {
    DIMS(rows, T, C, first);
    *in = rows * C, *out = T * C, *terms = rows;
}

RUN(position_rows_dtable) {
    DIMS(rows, T, C, first);
    OK(d->ops->position_backward(d, out, in, NULL, first, rows, T, C, (grad_mode)s->n[4]));
}

/* ---- rope: rows, T, heads, D, first; in = table (T, D), out = x (rows, heads, D). A third of the heads,
 * rounded down, is not rotated ---- */

SIZES(rope) {
    DIMS(rows, T, heads, D);
    *in = T * D, *out = rows * heads * D, *terms = 1;
}

static inline void rope_both(device *d, const dims *s, const float *table, float *x, bool inverse) {
    DIMS(rows, T, heads, D);
    OK(d->ops->rope(d, x, table, NULL, inverse, s->n[4], rows, T, heads, heads - heads / 3, D));
}

RUN(rope) {
    rope_both(d, s, in, out, false);
}

SIZES(rope_inverse) {
    rope_sizes(s, in, out, terms);
}

RUN(rope_inverse) {
    rope_both(d, s, in, out, true);
}

/* ---- cross-entropy: T, V, valid, first; out = max, sums, loss (first), gradient ---- */

SIZES(xent) {
    DIMS(T, V, valid, first);
    *in = T * V, *out = 1 + 3 * T + T * V, *terms = 1;
}

RUN(xent) {
    DIMS(T, V, valid, first);
    float *max = out + 1, *sums = max + T, *logits = sums + 2 * T;
    int32_t *targets = tokens_of(T, first, V);
    double loss = (double)*out;
    if (T && V) memcpy(logits, in, T * V * sizeof *in);
    OK(d->ops->xent_forward(d, max, sums, in, targets, (int32_t)first, T, V, valid));
    OK(d->ops->xent_loss(d, &loss, max, sums, targets, T ? 1.0 / (double)T : 1.0, T));
    OK(d->ops->xent_backward(d, logits, max, sums, targets, (int32_t)first, 0.5f, T, V, valid));
    *out = (float)loss;
    free(targets);
}

/* parts, T; in = own, out = max */
SIZES(xent_max) {
    *in = s->n[0] * s->n[1], *out = s->n[1], *terms = 1;
}

RUN(xent_max) {
    OK(d->ops->xent_max(d, out, in, s->n[0], s->n[1]));
}

/* T; in = own, and how far below max that is; out = sums */
SIZES(xent_rescale) {
    *in = 2 * s->n[0], *out = 2 * s->n[0], *terms = 1;
}

RUN(xent_rescale) {
    size_t T = s->n[0];
    float *max = fixture_copy(in, T);
    for (size_t t = 0; t < T; t++) max[t] += fabsf(in[T + t]);
    OK(d->ops->xent_rescale(d, out, in, max, T));
    free(max);
}

/* ---- flat: n, and for adamw the step ---- */

SIZES(add) {
    *in = *out = s->n[0], *terms = 1;
}

RUN(add) {
    OK(d->ops->add(d, out, in, s->n[0]));
}

SIZES(sum_squares) {
    *in = s->n[0], *out = 1, *terms = 1;
}

RUN(sum_squares) {
    double sum = 7.0; /* `=` */
    OK(ops_sum_squares(d, &sum, in, s->n[0]));
    *out = (float)sum;
}

/* n, the first element of the part. */
SIZES(sum_squares_exact) {
    *in = s->n[0], *out = 1, *terms = 1;
}

RUN(sum_squares_exact) {
    const ops_part part = {.at = s->n[1], .n = s->n[0] - s->n[1]};
    int64_t digits[SQUARES_DIGITS] = {0};
    exact_add(digits, 7.0); /* `+=` */
    OK(d->ops->sum_squares_exact(d, digits, in, &part, 1));
    *out = (float)exact_value(digits);
}

/* parts, stride, n, and which: X_WIDE, Y_WIDE, IN_PLACE. */
enum { X_WIDE = 1, Y_WIDE = 2, IN_PLACE = 4 };

SIZES(sum_parts) {
    DIMS(parts, stride, n, which);
    *in = n ? (parts - 1) * stride + n : 0, *out = which & IN_PLACE ? *in : n, *terms = 1;
}

RUN(sum_parts) {
    DIMS(parts, stride, n, which);
    const float *x = which & IN_PLACE ? out : in;
    if (which & IN_PLACE && n) memcpy(out, in, ((parts - 1) * stride + n) * sizeof *in);
    OK(d->ops->sum_parts(d, out, which & Y_WIDE, x, which & X_WIDE, parts, stride, n));
}

/* T, N, at, n. */
SIZES(columns_add) {
    DIMS(T, N, at, n);
    (void)at;
    *in = T * n, *out = T * N, *terms = 2;
}

RUN(columns_add) {
    DIMS(T, N, at, n);
    OK(d->ops->columns_add(d, out, in, 0.75f, T, N, at, n));
}

SIZES(columns_take) {
    DIMS(T, N, at, n);
    (void)at;
    *in = T * N, *out = T * n, *terms = 1;
}

RUN(columns_take) {
    DIMS(T, N, at, n);
    OK(d->ops->columns_take(d, out, in, 0.75f, T, N, at, n));
}

/* out = w, m, v, and the copy, which a device that computes in fp32 does not change */
SIZES(adamw) {
    *in = s->n[0], *out = 4 * s->n[0], *terms = 1;
}

RUN(adamw) {
    size_t n = s->n[0];
    const adamw_args args = {.lr = 0.01f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-6f,
                             .decay = 0.1f,
                             .scale = 0.7f,
                             .step = (int64_t)s->n[1]};
    for (size_t i = 2 * n; i < 3 * n; i++) out[i] = fabsf(out[i]); /* a mean of squares */
    float *copy = d->compute == TRINE_F32 ? NULL : out + 3 * n;
    OK(ops_adamw(d, out, out + n, out + 2 * n, copy, in, n, &args));
}

#define LIST(...) {__VA_ARGS__}, sizeof((dims[]){__VA_ARGS__}) / sizeof(dims)
#define CASE(op, spread, matmul, ...)                                                              \
    { #op, op##_sizes, op##_run, spread, matmul, LIST(__VA_ARGS__) }
#define D(...)                                                                                     \
    {                                                                                              \
        { __VA_ARGS__ }                                                                            \
    }

static const op_case op_cases[] = {
    CASE(linear_y, 1.0, true, D(1, 1, 1, 1), D(5, 7, 3, 0), D(33, 65, 17, 1), D(64, 768, 256, 1),
         D(3, 50, 768, 0), D(1030, 260, 257, 1), D(0, 4, 4, 1), D(4, 0, 4, 1), D(4, 5, 0, 1),
         D(4, 5, 0, 0), D(24, 2304, 768, 1), D(24, 768, 3072, 0)),
    CASE(linear_residual, 1.0, true, D(1, 1, 1, 1), D(5, 7, 3, 0), D(33, 65, 17, 1),
         D(64, 96, 256, 1), D(3, 50, 768, 0), D(0, 4, 4, 1), D(4, 0, 4, 1), D(4, 5, 0, 1),
         D(4, 5, 0, 0), D(24, 768, 768, 1)),
    CASE(linear_dx, 1.0, true, D(1, 1, 1), D(5, 7, 3), D(33, 65, 17), D(64, 768, 96),
         D(1030, 260, 257), D(0, 4, 4), D(4, 0, 5), D(4, 4, 0)),
    CASE(linear_dw, 1.0, true, D(1, 1, 1, 1), D(5, 7, 3, 0), D(33, 65, 17, 1), D(256, 96, 64, 1),
         D(40, 1, 768, 0), D(1030, 260, 257, 1), D(0, 4, 4, 1), D(4, 0, 5, 1), D(4, 5, 0, 1)),
    CASE(linear_dw, 1.0, true, D(1, 1, 1, 1, 1), D(5, 7, 3, 0, 1), D(33, 65, 17, 1, 1),
         D(256, 96, 64, 1, 1), D(1030, 260, 257, 1, 1), D(0, 4, 4, 1, 1), D(4, 0, 5, 1, 1),
         D(4, 5, 0, 1, 1)),
    CASE(bias_residual, 1.0, false, D(1, 1, 3), D(5, 7, 1), D(6, 33, 2), D(4, 4, 0), D(13, 768, 3),
         D(0, 5, 3), D(5, 0, 3), D(40, 1600, 3), D(3, 2048, 1), D(3, 1030, 2)),
    CASE(dropout_residual, 1.0, false, D(1, 1, 1, 0, 1), D(5, 7, 3, 0), D(6, 33, 4, 3, 1),
         D(13, 768, 512, 1000, 1), D(0, 5, 3, 0, 1), D(5, 0, 3, 0, 1), D(40, 1600, 9, 4),
         D(3, 1030, 2, 1, 1)),
    CASE(dropout, 1.0, false, D(1, 1, 1, 0), D(5, 7, 3, 0, 1), D(6, 33, 4, 3),
         D(13, 768, 512, 1000),
         D(0, 5, 3, 0), D(5, 0, 3, 0), D(40, 1600, 9, 4, 1), D(3, 1030, 2, 1)),
    CASE(bias_backward, 1.0, false, D(1, 1), D(5, 7), D(300, 130), D(65, 768), D(0, 5), D(5, 0),
         D(5, 7, 1), D(300, 130, 1), D(0, 5, 1), D(33, 2304, 1), D(40000, 3), D(1, 1600)),
    CASE(norm_y, 2.0, false, D(1, 1), D(3, 2), D(5, 17), D(7, 768), D(2, 1031), D(0, 8), D(9, 1600),
         D(5, 2049), D(1, 8192), D(3, 8196), D(2, 8201)),
    CASE(norm_dx, 2.0, false, D(1, 1), D(3, 2), D(5, 17), D(70, 768), D(2, 1031), D(200, 65),
         D(0, 8), D(5, 17, 1, 0), D(70, 768, 0, 1), D(2, 33, 1, 1), D(33, 1600, 1, 1), D(1, 1024),
         D(3, 8192), D(3, 8196, 0, 1), D(35, 8201, 1, 0)),
    CASE(rms_norm_y, 2.0, false, D(1, 1), D(3, 2), D(5, 17), D(7, 768), D(2, 1031), D(0, 8),
         D(9, 1600), D(5, 2049), D(1, 8192), D(3, 8196), D(2, 8201)),
    CASE(rms_norm_dx, 2.0, false, D(1, 1), D(3, 2), D(5, 17), D(70, 768), D(2, 1031), D(200, 65),
         D(0, 8), D(5, 17, 1, 0), D(70, 768, 0, 1), D(2, 33, 1, 1), D(33, 1600, 1, 1),
         D(1, 1024), D(3, 8192), D(3, 8196, 0, 1), D(35, 8201, 1, 0), D(4500, 12, 1, 1), D(0, 8, 1, 1)),
    CASE(qk_norm_y, 2.0, false, D(1, 1, 1, 1), D(3, 2, 1, 5), D(5, 4, 2, 16), D(7, 3, 3, 64),
         D(9, 8, 2, 128), D(2, 1, 1, 256), D(3, 5, 1, 130), D(0, 4, 2, 8), D(4, 2, 0, 8)),
    CASE(qk_norm_dx, 2.0, false, D(1, 1, 1, 1), D(3, 2, 1, 5), D(5, 4, 2, 16, 1), D(7, 3, 3, 64, 2),
         D(19, 8, 2, 128, 3), D(2, 1, 1, 256, 2), D(3, 5, 1, 130, 3), D(0, 4, 2, 8, 1), D(0, 4, 2, 8),
         D(4, 2, 0, 8, 1), D(700, 2, 1, 6, 3)),
    CASE(swiglu_y, 12.0, false, D(1, 1), D(3, 5), D(7, 64), D(2, 1027), D(1, 3000), D(0, 5), D(5, 0),
         D(40, 12)),
    CASE(swiglu_dx, 2.0, false, D(1, 1), D(3, 5), D(7, 64), D(2, 1027), D(1, 3000), D(0, 5), D(5, 0),
         D(40, 12)),
    CASE(gelu_y, 12.0, false, D(1), D(17, 1), D(1000, 0), D(1027, 1), D(0)),
    CASE(gelu_dx, 12.0, false, D(1), D(17, 1), D(1000, 0), D(1027, 1), D(0)),
    CASE(attention_y, 2.0, false, D(1, 1, 1, 1), D(2, 7, 3, 5), D(1, 8, 1, 32), D(2, 9, 2, 16),
         D(1, 33, 2, 33), D(2, 65, 3, 64), D(1, 100, 1, 80), D(0, 4, 2, 4), D(2, 0, 2, 4),
         D(2, 1, 3, 64), D(1, 150, 1, 64), D(1, 24, 12, 64), D(1, 70, 1, 96), D(1, 130, 1, 128),
         D(1, 67, 1, 130), D(1, 40, 1, 256), D(2, 7, 3, 5, 1), D(1, 65, 2, 64, 1),
         D(2, 40, 2, 16, 1), D(2, 7, 4, 5, 0, 2), D(1, 65, 4, 64, 0, 1), D(1, 130, 4, 64, 0, 2),
         D(1, 70, 2, 128, 0, 1), D(2, 33, 3, 33, 1, 1), D(2, 40, 6, 64, 1, 2), D(1, 67, 2, 96, 0, 1),
         D(1, 24, 6, 128, 1, 2), D(1, 20, 2, 130, 1, 1), D(1, 40, 2, 256, 0, 1), D(0, 4, 4, 4, 0, 2),
         D(2, 0, 4, 4, 0, 2)),
    CASE(attention_dqkv, 2.0, false, D(1, 1, 1, 1), D(2, 7, 3, 5), D(1, 8, 1, 32), D(2, 9, 2, 16),
         D(1, 33, 2, 33), D(2, 65, 3, 64), D(1, 100, 1, 80), D(0, 4, 2, 4), D(2, 0, 2, 4),
         D(2, 1, 3, 64), D(1, 150, 1, 64), D(1, 24, 12, 64), D(1, 70, 1, 96), D(1, 130, 1, 128),
         D(1, 67, 1, 130), D(1, 40, 1, 256), D(2, 7, 3, 5, 1), D(1, 65, 2, 64, 1),
         D(2, 40, 2, 16, 1), D(2, 7, 4, 5, 0, 2), D(1, 65, 4, 64, 0, 1), D(1, 130, 4, 64, 0, 2),
         D(1, 70, 2, 128, 0, 1), D(2, 33, 3, 33, 1, 1), D(2, 40, 6, 64, 1, 2), D(1, 67, 2, 96, 0, 1),
         D(1, 24, 6, 128, 1, 2), D(1, 20, 2, 130, 1, 1), D(1, 40, 2, 256, 0, 1), D(0, 4, 4, 4, 0, 2),
         D(2, 0, 4, 4, 0, 2)),
    CASE(attention_cached, 2.0, false, D(1, 0, 1, 1, 1), D(1, 6, 3, 5, 7), D(1, 64, 2, 32, 100),
         D(1, 200, 2, 64, 256), D(7, 0, 3, 5, 9), D(9, 3, 2, 16, 12), D(33, 0, 2, 33, 33),
         D(40, 61, 1, 64, 101), D(3, 150, 1, 80, 160), D(0, 4, 2, 4, 8), D(2, 131, 1, 130, 140),
         D(1, 40, 1, 256, 41), D(8, 129, 2, 64, 137), D(70, 0, 1, 96, 70),
         D(1, 6, 4, 5, 7, 2), D(1, 200, 4, 64, 256, 1), D(7, 0, 6, 5, 9, 2), D(9, 131, 3, 128, 140, 1),
         D(33, 3, 4, 64, 37, 2), D(0, 4, 4, 4, 8, 2), D(2, 40, 2, 130, 42, 1)),
    CASE(embedding_x, 1.0, false, D(1, 1, 1, 0), D(9, 7, 5, 3), D(50, 130, 20, 1000),
         D(17, 768, 300, 0), D(0, 5, 5, 0), D(5, 4, 0, 3), D(101, 64, 40, 7), D(6, 2052, 9, 0)),
    CASE(embedding_dtable, 1.0, false, D(1, 1, 1, 0), D(9, 7, 5, 3), D(50, 130, 20, 1000),
         D(170, 768, 30, 0), D(0, 5, 5, 0), D(5, 4, 0, 3), D(9, 7, 5, 3, 1), D(170, 768, 30, 0, 1),
         D(0, 5, 5, 0, 1), D(12000, 3, 1, 0), D(12000, 8, 1, 2, 1), D(1500, 132, 2500, 7),
         D(1500, 130, 2500, 7, 1), D(7, 1600, 3, 0)),
    CASE(position_x, 1.0, false, D(1, 1, 1), D(3, 5, 7), D(2, 9, 768), D(0, 3, 3), D(3, 0, 3),
         D(9, 4, 1600)),
    CASE(position_dtable, 1.0, false, D(1, 1, 1), D(3, 5, 7), D(2, 9, 768), D(0, 3, 3),
         D(3, 5, 7, 1), D(0, 3, 3, 1), D(9, 4, 8), D(6, 3, 1600, 1)),
    CASE(position_rows_x, 1.0, false, D(4, 5, 7, 3), D(9, 4, 66, 11), D(1, 6, 5, 5)),
    CASE(position_rows_dtable, 1.0, false, D(4, 5, 7, 3), D(9, 4, 66, 11), D(1, 6, 5, 5),
         D(4, 5, 7, 3, 1), D(9, 4, 66, 11, 1), D(0, 4, 5, 2, 1), D(1, 6, 5, 5, 1)),
    CASE(rope, 1.0, false, D(1, 1, 1, 2), D(3, 5, 3, 6, 4), D(9, 4, 5, 16, 11), D(6, 3, 4, 64),
         D(5, 40, 6, 128, 37), D(0, 3, 2, 4), D(3, 3, 0, 4), D(3, 3, 2, 0), D(70, 8, 2, 10, 3),
         D(2, 2, 1, 2060, 1)),
    CASE(rope_inverse, 1.0, false, D(3, 5, 3, 6, 4), D(9, 4, 5, 16, 11), D(2, 7, 3, 130, 6)),
    CASE(xent, 6.0, false, D(1, 1, 1, 0), D(5, 7, 7, 0), D(9, 16, 11, 100), D(9, 16, 0, 50),
         D(6, 1031, 1000, 2000), D(3, 50304, 50257, 0), D(0, 8, 8, 0), D(2, 50257, 50257, 0),
         D(1, 31, 30, 3), D(17, 520, 513, 0), D(700, 6, 5, 0)),
    CASE(xent_max, 1.0, false, D(1, 1), D(2, 17), D(5, 300), D(3, 0)),
    CASE(xent_rescale, 6.0, false, D(1), D(17), D(300), D(0)),
    CASE(add, 1.0, false, D(1), D(17), D(1000), D(0), D(20003)),
    CASE(sum_squares, 1.0, false, D(1), D(17), D(4096), D(4097), D(5 * 4096 + 11),
         D(300 * 4096 + 5), D(0)),
    CASE(sum_squares_exact, 1.0, false, D(1), D(17), D(64), D(65, 63), D(4097, 3), D(64, 64), D(0),
         D(33 * 4096 + 5, 77)),
    CASE(sum_parts, 1.0, false, D(1, 1, 1, 0), D(1, 0, 1000, X_WIDE), D(1, 7, 17, Y_WIDE),
         D(2, 1000, 1000, 0), D(2, 1003, 17, X_WIDE), D(3, 64, 33, Y_WIDE), D(3, 516, 515, 0),
         D(4, 1024, 1024, X_WIDE + Y_WIDE + IN_PLACE), D(4, 20, 17, IN_PLACE), D(6, 2003, 2003, X_WIDE),
         D(7, 5, 5, Y_WIDE), D(64, 8, 8, 0), D(255, 4, 3, X_WIDE), D(2, 8, 0, 0)),
    CASE(columns_add, 1.0, false, D(1, 1, 0, 1), D(3, 12, 4, 8), D(5, 17, 3, 11), D(9, 768, 256, 256),
         D(0, 8, 0, 8), D(2, 8, 8, 0)),
    CASE(columns_take, 1.0, false, D(1, 1, 0, 1), D(3, 12, 4, 8), D(5, 17, 3, 11), D(9, 768, 256, 256),
         D(0, 8, 0, 8), D(2, 8, 8, 0)),
    CASE(adamw, 1.0, false, D(1, 1), D(17, 2), D(1000, 1), D(1003, 1000), D(0, 1), D(9002, 3)),
};

#undef D

#define OP_CASES (sizeof op_cases / sizeof *op_cases)

#endif
