/* The operators of a GPT, as one table: a row per operator, and one file per operator in ref/, cpu/element/
 * and cuda/. Comments give the shapes; all matrices are row-major and dense. `=` means that the output
 * is set, `+=` that the operator adds to it, `(+)=` that a grad_mode chooses: the first gradients of a step are
 * set, so that no zeros have to be written first. Outputs do not overlap inputs unless the comment
 * says so.
 *
 * Every pointer is to device memory. An operator may return before it has finished (device.h).
 * Types: `void *` is the device's compute type (d->compute), except gradients of parameters and their
 * operands (dw, dbias, dgain, dq_gain, dk_gain, dtable, add, sum_squares, g of adamw), which have d->grads.
 * `float *` is always fp32. For every type, an operator computes in fp32 or better and rounds when it
 * stores, to the nearest, ties to even; 16-bit sums are not rounded in between.
 * Numbers: the result does not depend on the number of threads (except for the matmuls of a cpu device
 * without exact_threads, see docs/numbers.md). A NaN in an input gives a NaN in the output.
 * Errors: TRINE_EMATH from a maths library; plain loops cannot fail. */
#ifndef TRINE_DEVICE_OPS_H
#define TRINE_DEVICE_OPS_H

#include "device/device.h"
#include "device/op_args.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The operators: name; unit of work, FLOPS or BYTES; amount of work (by device/work.h); parameters
 * after the device; the same as arguments. OPTIONAL: a device may have NULL.
 *
 * The tables of all devices are generated from this list, and so is the table that times them. To add an
 * operator: a row, and a file for each device: ref_NAME (ref/), CPU(NAME) (cpu/element/), cuda_NAME (cuda/). */
#define OPS_LIST(X, OPTIONAL)                                                                      \
    /* y (T, N) = x (T, K) w (N, K)^T + bias (N);  bias may be NULL */                             \
    X(linear_forward, FLOPS, 2 * T * N * K,                                                        \
      (void *y, const void *w, const void *bias, const void *x, size_t T, size_t N, size_t K),     \
      (y, w, bias, x, T, N, K))                                                                    \
    /* y (T, N) = x (T, K) w (N, K)^T + bias (N) + residual (T, N), rounded once. bias may be
     * NULL; y must not be residual. NULL in a table that has nothing better than linear_forward
     * followed by bias_residual, which rounds between the two. */                                 \
    OPTIONAL(linear_residual, FLOPS, 2 * T * N * K,                                                \
             (void *y, const void *w, const void *bias, const void *residual, const void *x,       \
              size_t T, size_t N, size_t K),                                                       \
             (y, w, bias, residual, x, T, N, K))                                                   \
    /* dx (T, K) = dy (T, N) w (N, K) */                                                           \
    X(linear_backward_input, FLOPS, 2 * T * N * K,                                                 \
      (void *dx, const void *w, const void *dy, size_t T, size_t N, size_t K),                     \
      (dx, w, dy, T, N, K))                                                                        \
    /* dw (N, K) (+)= dy (T, N)^T x (T, K);  dbias (N) (+)= column sums of dy; dbias may be NULL */ \
    X(linear_backward_weight, FLOPS, 2 * T * N * K,                                                \
      (void *dw, void *dbias, const void *dy, const void *x, size_t T, size_t N, size_t K,         \
       grad_mode mode),                                                                            \
      (dw, dbias, dy, x, T, N, K, mode))                                                           \
    /* y (T, N) = (y + bias (N)) + residual (T, N). bias and residual may be NULL; residual must
     * not be y */                                                                                 \
    X(bias_residual, BYTES, numbers(d, (residual ? 3 : 2) * T * N + (bias ? N : 0)),               \
      (void *y, const void *bias, const void *residual, size_t T, size_t N),                       \
      (y, bias, residual, T, N))                                                                   \
    /* y (T, N) = dropout(y + bias (N)) + residual (T, N). bias may be NULL; y must not be
     * residual */                                                                                 \
    X(dropout_residual, BYTES, numbers(d, 3 * T * N + (bias ? N : 0)),                             \
      (void *y, const void *bias, const void *residual, const dropout_args *drop, size_t T,        \
       size_t N),                                                                                  \
      (y, bias, residual, drop, T, N))                                                             \
    /* y (T, N) = dropout(x (T, N)), forward and backward. y may be x */                           \
    X(dropout, BYTES, numbers(d, 2 * T * N),                                                       \
      (void *y, const void *x, const dropout_args *drop, size_t T, size_t N),                      \
      (y, x, drop, T, N))                                                                          \
    /* y (T, N): columns [at, at + n) += scale * x (T, n), rounded once */                         \
    X(columns_add, BYTES, numbers(d, 3 * T * n),                                                   \
      (void *y, const void *x, float scale, size_t T, size_t N, size_t at, size_t n),              \
      (y, x, scale, T, N, at, n))                                                                  \
    /* y (T, n) = scale * columns [at, at + n) of x (T, N) */                                      \
    X(columns_take, BYTES, numbers(d, 2 * T * n),                                                  \
      (void *y, const void *x, float scale, size_t T, size_t N, size_t at, size_t n),              \
      (y, x, scale, T, N, at, n))                                                                  \
    /* dbias (N) (+)= column sums of dy (T, N) */                                                  \
    X(bias_backward, BYTES, numbers(d, T * N) + gradients(d, moves(mode) * N),                     \
      (void *dbias, const void *dy, size_t T, size_t N, grad_mode mode),                           \
      (dbias, dy, T, N, mode))                                                                     \
    /* y (T, C) = (x - mean) * rstd * gain + bias;  stat (T, 2) = {mean, rstd};  eps 1e-5.
     * Ba et al., "Layer normalization", 2016 */                                                   \
    X(norm_forward, BYTES, numbers(d, 2 * T * C + 2 * C) + floats(2 * T),                          \
      (void *y, float *stat, const void *gain, const void *bias, const void *x, size_t T,          \
       size_t C),                                                                                  \
      (y, stat, gain, bias, x, T, C))                                                              \
    /* dx (T, C) (+)= ... as `stream` says;  dgain (C) (+)= ...;  dbias (C) (+)= ... as `mode`
     * says */                                                                                     \
    X(norm_backward, BYTES, numbers(d, (2 + moves(stream)) * T * C + C) +                          \
      gradients(d, 2 * moves(mode) * C) + floats(2 * T),                                           \
      (void *dx, void *dgain, void *dbias, const void *dy, const void *gain, const void *x,        \
       const float *stat, size_t T, size_t C, grad_mode stream, grad_mode mode),                   \
      (dx, dgain, dbias, dy, gain, x, stat, T, C, stream, mode))                                   \
    /* y (T, C) = x * rstd * gain, rstd = 1 / sqrt(mean(x^2) + eps);  stat (T) = rstd.
     * Zhang and Sennrich, "Root mean square layer normalization", 2019 */                         \
    X(rms_norm_forward, BYTES, numbers(d, 2 * T * C + C) + floats(T),                              \
      (void *y, float *stat, const void *gain, const void *x, float eps, size_t T, size_t C),      \
      (y, stat, gain, x, eps, T, C))                                                               \
    /* dx (T, C) (+)= ... as `stream` says;  dgain (C) (+)= ... as `mode` says. The cpu device has
     * room for the sums of 32768 columns; more are TRINE_EUNSUPPORTED */                          \
    X(rms_norm_backward, BYTES, numbers(d, (2 + moves(stream)) * T * C + C) +                      \
      gradients(d, moves(mode) * C) + floats(T),                                                   \
      (void *dx, void *dgain, const void *dy, const void *gain, const void *x, const float *stat,  \
       size_t T, size_t C, grad_mode stream, grad_mode mode),                                      \
      (dx, dgain, dy, gain, x, stat, T, C, stream, mode))                                          \
    /* RMS norm of every query and key head over its own D elements: x and y (T, H + 2 K, D) have H
     * query heads, K key heads and K value heads, which are copied; gains q_gain, k_gain (D);
     * stat (T, H + K) = rstd. D is at most 256 on the cuda device, like attention's.
     * Henry et al., "Query-key normalization for transformers", 2020; in this form: Yang et al.,
     * "Qwen3 technical report", 2025 */                                                           \
    X(qk_norm_forward, BYTES, numbers(d, 2 * T * (H + 2 * K) * D + 2 * D) + floats(T * (H + K)),   \
      (void *y, float *stat, const void *q_gain, const void *k_gain, const void *x, float eps,     \
       size_t T, size_t H, size_t K, size_t D),                                                    \
      (y, stat, q_gain, k_gain, x, eps, T, H, K, D))                                               \
    /* dx (T, H + 2 K, D) = ..., for value heads dy;  dq_gain, dk_gain (D) (+)= sums over rows and
     * heads. dx may be dy */                                                                      \
    X(qk_norm_backward, BYTES, numbers(d, (3 * (H + K) + (dx == dy ? 0 : 2 * K)) * T * D + 2 * D) +\
      gradients(d, 2 * moves(mode) * D) + floats(T * (H + K)),                                     \
      (void *dx, void *dq_gain, void *dk_gain, const void *dy, const void *q_gain,                 \
       const void *k_gain, const void *x, const float *stat, size_t T, size_t H, size_t K,         \
       size_t D, grad_mode mode),                                                                  \
      (dx, dq_gain, dk_gain, dy, q_gain, k_gain, x, stat, T, H, K, D, mode))                       \
    /* y (T, F) = silu(gate) * up with x (T, 2, F) = gate, up;  silu(g) = g / (1 + exp(-g)).
     * Shazeer, "GLU variants improve transformer", 2020 */                                        \
    X(swiglu_forward, BYTES, numbers(d, 3 * T * F),                                                \
      (void *y, const void *x, size_t T, size_t F),                                                \
      (y, x, T, F))                                                                                \
    /* dx (T, 2, F) = dy (T, F) * up * silu'(gate), dy * silu(gate) */                             \
    X(swiglu_backward, BYTES, numbers(d, 5 * T * F),                                               \
      (void *dx, const void *dy, const void *x, size_t T, size_t F),                               \
      (dx, dy, x, T, F))                                                                           \
    /* y (n) = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). y may be x.
     * Hendrycks and Gimpel, "Gaussian error linear units", 2016, section 2 */                     \
    X(gelu_forward, BYTES, numbers(d, 2 * n),                                                      \
      (void *y, const void *x, size_t n),                                                          \
      (y, x, n))                                                                                   \
    /* dx (n) = dy (n) * gelu'(x (n)). dx may be dy */                                             \
    X(gelu_backward, BYTES, numbers(d, 3 * n),                                                     \
      (void *dx, const void *dy, const void *x, size_t n),                                         \
      (dx, dy, x, n))                                                                              \
    /* Causal attention of H heads of width D on qkv (B, T, H + 2 K, D), whose rows have H query
     * heads, K key heads and K value heads; H is a multiple of K, and query head h reads key and
     * value head h / (H / K). y (B, T, H, D) = softmax(q k^T / sqrt(D)) v;  lse (B, H, T) = log
     * of the softmax's denominator (including the maximum), which the backward pass reads. No
     * (T, T) matrix outlives the call. Row t attends to the keys of its document up to itself:
     * `starts` (B, T), NULL for one document a sample. No other row has an influence on it, a NaN
     * included, and what is masked for a tile of rows is not computed. `drop` (NULL: no dropout)
     * applies to the probabilities, that is, after the division by the softmax's denominator; its
     * elements do not depend on `starts`. `work` has attention_workspace() bytes.
     * Vaswani et al., "Attention is all you need", 2017, section 3.2.1; with K < H Ainslie et
     * al., "GQA", EMNLP 2023; the recomputation from lse is Dao et al., "FlashAttention", 2022,
     * section 3.1 */                                                                              \
    X(attention_forward, FLOPS, attention_flops(B, T, H, D),                                       \
      (void *y, float *lse, const void *qkv, const int32_t *starts, void *work,                    \
       const dropout_args *drop, size_t B, size_t T, size_t H, size_t K, size_t D),                \
      (y, lse, qkv, starts, work, drop, B, T, H, K, D))                                            \
    /* dqkv (B, T, H + 2 K, D) = ..., with the forward pass's `starts`. The gradient of a key or
     * value head is the sum over its query heads in ascending order, rounded once */              \
    X(attention_backward, FLOPS, 2 * attention_flops(B, T, H, D),                                  \
      (void *dqkv, const void *dy, const void *qkv, const void *y, const float *lse,               \
       const int32_t *starts, void *work, const dropout_args *drop, size_t B, size_t T, size_t H,  \
       size_t K, size_t D),                                                                        \
      (dqkv, dy, qkv, y, lse, starts, work, drop, B, T, H, K, D))                                  \
    /* x (T, C): row t = row tokens[t] - first of table (V, C), or zeros if that is outside [0,
     * V) */                                                                                       \
    X(embedding_forward, BYTES, numbers(d, 2 * T * C),                                             \
      (void *x, const void *table, const int32_t *tokens, int32_t first, size_t T, size_t C,       \
       size_t V),                                                                                  \
      (x, table, tokens, first, T, C, V))                                                          \
    /* dtable (V, C) (+)= rows of dx (T, C), added in ascending t; GRAD_SET starts from zeros */   \
    X(embedding_backward, BYTES, numbers(d, T * C) + gradients(d, 2 * T * C +                      \
      (mode == GRAD_SET ? V * C : 0)),                                                             \
      (void *dtable, const void *dx, const int32_t *tokens, int32_t first, size_t T, size_t C,     \
       size_t V, grad_mode mode),                                                                  \
      (dtable, dx, tokens, first, T, C, V, mode))                                                  \
    /* x (rows, C) holds rows [first, first + rows) of a micro-batch's (B, T, C): row i of x +=
     * row (first + i) % T - starts[first + i] of table (T, C). starts is that of the micro-batch:
     * unless it is NULL (zeros), first + rows is at most B T */                                   \
    X(position_forward, BYTES, numbers(d, 2 * rows * C + T * C),                                   \
      (void *x, const void *table, const int32_t *starts, size_t first, size_t rows, size_t T,     \
       size_t C),                                                                                  \
      (x, table, starts, first, rows, T, C))                                                       \
    /* dtable (T, C) (+)= for each position the sum of the rows of dx (rows, C) that have it, in
     * ascending order; GRAD_SET sets zeros if there is no such row */                             \
    X(position_backward, BYTES, numbers(d, rows * C) + gradients(d, moves(mode) * T * C),          \
      (void *dtable, const void *dx, const int32_t *starts, size_t first, size_t rows, size_t T,   \
       size_t C, grad_mode mode),                                                                  \
      (dtable, dx, starts, first, rows, T, C, mode))                                               \
    /* Rotary positions, in place: x (rows, heads, D) holds rows [first, first + rows) of a micro-batch,
     * row i at position t = (first + i) % T - starts[first + i], with starts as above. In its first `rotated`
     * heads elements i < D / 2 and i + D / 2, (a, b), become (a cos - b sin, b cos + a sin); the other
     * heads are not visited. table (T, D), fp32: of each position the cosines of its D / 2 angles, then the
     * sines. `inverse` rotates by the negative angles, which is the backward pass. D is even.
     * Su et al., "RoFormer", 2021, section 3.4; these pairs: Black et al., "GPT-NeoX-20B", 2022 */\
    X(rope, BYTES, numbers(d, 2 * rows * rotated * D) + floats((rows < T ? rows : T) * D),         \
      (void *x, const float *table, const int32_t *starts, bool inverse, size_t first,             \
       size_t rows, size_t T, size_t heads, size_t rotated, size_t D),                             \
      (x, table, starts, inverse, first, rows, T, heads, rotated, D))                              \
    /* Cross-entropy over one shard of the vocabulary: the shard has V columns, of which the
     * first `valid` are real and the others padding, which is ignored; column v is token first
     * + v. In one pass over logits (T, V): max (T) = maximum over the valid columns, -inf if
     * there are none; sums (T, 2) = {sum over the valid columns of exp(logit - max), 0 if max
     * is -inf; the target's logit if the target is in this shard, else 0}. A row whose target is
     * OPS_NO_TARGET is not read: max 0, sums {1, 0}.
     * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3 */   \
    X(xent_forward, BYTES, numbers(d, T * valid) + floats(3 * T),                                  \
      (float *max, float *sums, const void *logits, const int32_t *targets, int32_t first,         \
       size_t T, size_t V, size_t valid),                                                          \
      (max, sums, logits, targets, first, T, V, valid))                                            \
    /* max (T) = the largest of own (parts, T) */                                                  \
    X(xent_max, BYTES, floats((parts + 1) * T),                                                    \
      (float *max, const float *own, size_t parts, size_t T),                                      \
      (max, own, parts, T))                                                                        \
    /* sums[t][0] *= exp(own[t] - max[t]): makes a sum that is relative to the shard's maximum
     * own (T) relative to the maximum over the vocabulary max (T), which is at least as large */  \
    X(xent_rescale, BYTES, floats(4 * T),                                                          \
      (float *sums, const float *own, const float *max, size_t T),                                 \
      (sums, own, max, T))                                                                         \
    /* *loss (in device memory) += scale * sum over t, except those whose target is OPS_NO_TARGET,
     * of log(sums[t][0]) + (max[t] - sums[t][1]), added in double, in an order that depends on T
     * only (ascending on CPUs) */                                                                 \
    X(xent_loss, BYTES, floats(3 * T),                                                             \
      (double *loss, const float *max, const float *sums, const int32_t *targets, double scale,    \
       size_t T),                                                                                  \
      (loss, max, sums, targets, scale, T))                                                        \
    /* Replaces logits (T, V) by its gradient (softmax - onehot(target)) * scale; padding columns
     * and rows whose target is OPS_NO_TARGET, which are not read, are set to 0 */                 \
    X(xent_backward, BYTES, numbers(d, T * valid + T * V) + floats(3 * T),                         \
      (void *logits, const float *max, const float *sums, const int32_t *targets, int32_t first,   \
       float scale, size_t T, size_t V, size_t valid),                                             \
      (logits, max, sums, targets, first, scale, T, V, valid))                                     \
    /* y (n) += x (n), both gradients */                                                           \
    X(add, BYTES, gradients(d, 3 * n),                                                             \
      (void *y, const void *x, size_t n),                                                          \
      (y, x, n))                                                                                   \
    /* sums (count, in device memory) = sum of squares of each part of x, in double, by blocks
     * of SUM_SQUARES_BLOCK elements that start at the start of the part; x are gradients */       \
    X(sum_squares, BYTES, gradients(d, ops_parts_sum(parts, count)),                               \
      (double *sums, const void *x, const ops_part *parts, int count),                             \
      (sums, x, parts, count))                                                                     \
    /* y (n) = the sum of the addends x (parts, n), which lie `stride` elements apart, by a tree: n addends are cut at
     * the largest power of two below n, and the sums of both sides are added. Additions are fp32 on every device, and
     * y is rounded once: equal bits everywhere. Numbers of x and y are fp32 if wide, else of the compute type. parts
     * is 1 (a conversion) to 255. y may be the first addend if both have one type */             \
    X(sum_parts, BYTES, floats((x_wide ? parts * n : 0) + (y_wide ? n : 0)) +                      \
      numbers(d, (x_wide ? 0 : parts * n) + (y_wide ? 0 : n)),                                     \
      (void *y, bool y_wide, const void *x, bool x_wide, size_t parts, size_t stride, size_t n),   \
      (y, y_wide, x, x_wide, parts, stride, n))                                                    \
    /* digits (SQUARES_DIGITS, in device memory), an exact sum that is carried (base/exact_sum.h), += sums of
     * squares of each part of x, by blocks of EXACT_BLOCK elements. Equal bits on every device, for any threads, and
     * however the parts are divided at multiples of EXACT_BLOCK among calls; x are gradients */       \
    X(sum_squares_exact, BYTES, gradients(d, ops_parts_sum(parts, count)),                         \
      (int64_t *digits, const void *x, const ops_part *parts, int count),                          \
      (digits, x, parts, count))                                                                   \
    /* One pass over the elements of the parts: updates w, m, v from g. w is fp32. If the
     * compute type is not fp32, w is the master and copy = w rounded to the compute type; else
     * copy is NULL.
     * w -= lr * (decay * w + mhat / (sqrt(vhat) + eps)) */                                        \
    X(adamw, BYTES, floats(6 * ops_parts_sum(parts, count)) +                                      \
      gradients(d, ops_parts_sum(parts, count)) +                                                  \
      (copy ? numbers(d, ops_parts_sum(parts, count)) : 0),                                        \
      (float *w, float *m, float *v, void *copy, const void *g, const ops_part *parts, int count,  \
       const adamw_args *args),                                                                    \
      (w, m, v, copy, g, parts, count, args))                                                      \
    /* Attention of n new rows, qkv (n, H + 2 K, D), at positions [past, past + n) of one sequence,
     * with a cache of the earlier keys and values: keys (K, D, M), transposed so that a query
     * reads them as vectors, and values (K, M, D); past + n <= M. Stores k and v of the new
     * rows in the cache; then y (n, H, D) = softmax(q k^T / sqrt(D)) v over the positions up to
     * that of each row. Later positions are not read. y equals that of attention_forward for
     * these rows, bit for bit on CPUs, for any number of rows per call. `work` has
     * attention_workspace(1, M, H, K, D) bytes.
     * Pope et al., "Efficiently scaling transformer inference", MLSys 2023, section 2 */          \
    X(attention_cached, FLOPS, (4 * past + 2 * n) * n * H * D,                                     \
      (void *y, void *keys, void *values, const void *qkv, void *work, size_t past, size_t n,      \
       size_t M, size_t H, size_t K, size_t D),                                                    \
      (y, keys, values, qkv, work, past, n, M, H, K, D))

#define OPS_PLAIN(...) __VA_ARGS__ /* removes the parentheses of a list */

typedef struct ops {
#define OPS_MEMBER(name, unit, work, takes, names) \
    trine_status (*name)(device *d, OPS_PLAIN takes);
    OPS_LIST(OPS_MEMBER, OPS_MEMBER)
#undef OPS_MEMBER
    /* Bytes of scratch for attention, enough for both directions. Pure. */
    size_t (*attention_workspace)(const device *d, size_t B, size_t T, size_t H, size_t K, size_t D);
} ops;

/* sum_squares and adamw for n contiguous elements. */
static inline trine_status ops_sum_squares(device *d, double *sum, const void *x, size_t n) {
    const ops_part all = {0, n, false};
    return d->ops->sum_squares(d, sum, x, &all, 1);
}
static inline trine_status ops_adamw(device *d, float *w, float *m, float *v, void *copy,
                                     const void *g, size_t n, const adamw_args *args) {
    const ops_part all = {0, n, true};
    return d->ops->adamw(d, w, m, v, copy, g, &all, 1, args);
}

extern const ops ops_ref; /* cpu has a table for each pair of types: cpu_table of cpu/cpu.h */

#ifdef __cplusplus
}
#endif

#endif
