/* The operators that a GPT needs, as one table. A row per operator, one operator per file in ref/,
 * cpu/element/ and cuda/. Shapes stand in comments; all matrices are row-major and dense. `=` means that the
 * output is set, `+=` that it is added to, `(+)=` that a grad_mode says which: the first gradients
 * of a step are set, so that nobody writes zeros first. Outputs do not overlap inputs unless a line
 * says so.
 *
 * Every pointer is to the device's memory. An operator may return before it is done (device.h).
 * Types: `void *` is the device's compute type (d->compute), but for gradients of parameters and what
 * is done with them (dw, dbias, dgain, dtable, add, sum_squares, g of adamw): there it is d->grads.
 * `float *` is always fp32. Whatever the type, an operator computes in fp32 or better, and rounds
 * where it stores, to the nearest, ties to even; 16-bit sums are not rounded on the way.
 * Numbers: an operator's result does not depend on the number of threads (but for the matmuls of
 * the cpu backend, see docs/numbers.md); a NaN that goes in comes out.
 * Errors: TRINE_EMATH from a maths library; the plain loops cannot fail. */
#ifndef TRINE_DEVICE_OPS_H
#define TRINE_DEVICE_OPS_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* AdamW, decoupled weight decay: Loshchilov and Hutter, "Decoupled weight decay regularization",
 * ICLR 2019, algorithm 2. `step` counts from 1. The gradient is multiplied by `scale` (clipping)
 * before it is used. */
typedef struct {
    float lr, beta1, beta2, eps, decay, scale;
    int64_t step;
} adamw_args;

/* Which elements a dropout drops (Srivastava et al., "Dropout", JMLR 2014, section 10 for what is kept
 * being scaled up): a function of names and global places alone, so that no layout, micro-batch size
 * or recomputation changes it.
 *
 *   sample    of row i of a micro-batch's (B, T, C): sample + i / T, numbered through the whole run
 *   element   in its sample's tensor: t C + c; of attention's probabilities (h T + q) T + k, h being
 *             the head among all tp ranks'
 *   word      Philox4x32-10 (base/rng.h) of key `key` and counter {element / 4, low and high half,
 *             sample, low and high half}, lane element % 4
 *   kept      if word >= dropout_threshold(p), and then multiplied by 1 / (1 - p), in fp32 */
typedef struct {
    float p;         /* in (0, 1) */
    uint64_t key;    /* rng_key(seed, the dropout's name) */
    uint64_t sample; /* of the micro-batch's row 0 */
    size_t first;    /* what the call's row 0 (attention: head 0) is, counted in the micro-batch (among
                        all heads) */
    size_t T;        /* rows a sample; attention has it as an argument */
} dropout_args;

static inline uint32_t dropout_threshold(float p) {
    return (uint32_t)((double)p * 4294967296.0);
}
static inline float dropout_scale(float p) {
    return (float)(1.0 / (1.0 - (double)p));
}

/* What happens to the values that a gradient's buffer holds; GRAD_SET does not read them. */
typedef enum { GRAD_ADD, GRAD_SET } grad_mode;

/* Elements [at, at + n) of a range, counted from where the operator's pointers stand: of a tensor.
 * Parts follow each other and do not overlap. What lies between is not visited. */
typedef struct {
    size_t at, n;
    bool decays; /* adamw: args->decay is for it; else it has none */
} ops_part;
#define OPS_PARTS 12 /* of a call, at most: a range's tensors */

/* sum_squares adds in blocks of this many elements, each block in a fixed order, so that the result
 * depends neither on threads nor on vector width. */
#define SUM_SQUARES_BLOCK 4096

/* The operators: name; what its work is, FLOPS or BYTES, and how much (src/profile/timed_device.c says of which
 * numbers); what it takes behind the device; the same as arguments. OPTIONAL: a device may have NULL.
 *
 * The list makes the tables of all devices, and the one that times them. A new operator is a row, and a
 * file for each device: ref_NAME (ref/), CPU(NAME) (cpu/element/), cuda_NAME (cuda/). */
#define OPS_LIST(X, OPTIONAL)                                                                      \
    /* y (T, N) = x (T, K) w (N, K)^T + bias (N);  bias may be NULL */                             \
    X(linear_forward, FLOPS, 2 * T * N * K,                                                        \
      (void *y, const void *w, const void *bias, const void *x, size_t T, size_t N, size_t K),     \
      (y, w, bias, x, T, N, K))                                                                    \
    /* y (T, N) = x (T, K) w (N, K)^T + bias (N) + residual (T, N), rounded once;  bias may be NULL;  y
     * is not residual. NULL in a table that has nothing better than linear_forward and then
     * bias_residual, which rounds between the two. */                                             \
    OPTIONAL(linear_residual, FLOPS, 2 * T * N * K,                                                \
             (void *y, const void *w, const void *bias, const void *residual, const void *x,       \
              size_t T, size_t N, size_t K),                                                       \
             (y, w, bias, residual, x, T, N, K))                                                   \
    /* dx (T, K) = dy (T, N) w (N, K) */                                                           \
    X(linear_backward_input, FLOPS, 2 * T * N * K,                                                 \
      (void *dx, const void *w, const void *dy, size_t T, size_t N, size_t K),                     \
      (dx, w, dy, T, N, K))                                                                        \
    /* dw (N, K) (+)= dy (T, N)^T x (T, K);  dbias (N) (+)= column sums of dy, may be NULL */      \
    X(linear_backward_weight, FLOPS, 2 * T * N * K,                                                \
      (void *dw, void *dbias, const void *dy, const void *x, size_t T, size_t N, size_t K,         \
       grad_mode mode),                                                                            \
      (dw, dbias, dy, x, T, N, K, mode))                                                           \
    /* y (T, N) = (y + bias (N)) + residual (T, N);  each may be NULL; residual may be y's equal
     * in shape but not y itself */                                                                \
    X(bias_residual, BYTES, numbers(d, (residual ? 3 : 2) * T * N + (bias ? N : 0)),               \
      (void *y, const void *bias, const void *residual, size_t T, size_t N),                       \
      (y, bias, residual, T, N))                                                                   \
    /* y (T, N) = dropout(y + bias (N)) + residual (T, N);  bias may be NULL;  y is not residual */ \
    X(dropout_residual, BYTES, numbers(d, 3 * T * N + (bias ? N : 0)),                             \
      (void *y, const void *bias, const void *residual, const dropout_args *drop, size_t T,        \
       size_t N),                                                                                  \
      (y, bias, residual, drop, T, N))                                                             \
    /* y (T, N) = dropout(x (T, N)), forwards and backwards;  y may be x */                        \
    X(dropout, BYTES, numbers(d, 2 * T * N),                                                       \
      (void *y, const void *x, const dropout_args *drop, size_t T, size_t N),                      \
      (y, x, drop, T, N))                                                                          \
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
    /* dx (T, C) (+)= ... by `stream`;  dgain (C) (+)= ...;  dbias (C) (+)= ... by `mode` */       \
    X(norm_backward, BYTES, numbers(d, (2 + moves(stream)) * T * C + C) +                          \
      gradients(d, 2 * moves(mode) * C) + floats(2 * T),                                           \
      (void *dx, void *dgain, void *dbias, const void *dy, const void *gain, const void *x,        \
       const float *stat, size_t T, size_t C, grad_mode stream, grad_mode mode),                   \
      (dx, dgain, dbias, dy, gain, x, stat, T, C, stream, mode))                                   \
    /* y (n) = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)));  y may be x
     * Hendrycks and Gimpel, "Gaussian error linear units", 2016, section 2 */                     \
    X(gelu_forward, BYTES, numbers(d, 2 * n),                                                      \
      (void *y, const void *x, size_t n),                                                          \
      (y, x, n))                                                                                   \
    /* dx (n) = dy (n) * gelu'(x (n));  dx may be dy */                                            \
    X(gelu_backward, BYTES, numbers(d, 3 * n),                                                     \
      (void *dx, const void *dy, const void *x, size_t n),                                         \
      (dx, dy, x, n))                                                                              \
    /* Causal attention of H heads of width D on qkv (B, T, 3, H, D): y (B, T, H, D) =
     * softmax(q k^T / sqrt(D)) v;  lse (B, H, T) = log of the softmax's denominator (with the
     * maximum folded in), kept for the backward pass. No (T, T) matrix outlives the call. `drop`
     * (NULL: none) is of the probabilities, that is after the division by the softmax's denominator.
     * `work` holds attention_workspace() bytes.
     * Vaswani et al., "Attention is all you need", 2017, section 3.2.1; the recomputation from lse
     * is Dao et al., "FlashAttention", 2022, section 3.1 */                                       \
    X(attention_forward, FLOPS, attention_flops(B, T, H, D),                                       \
      (void *y, float *lse, const void *qkv, void *work, const dropout_args *drop, size_t B,       \
       size_t T, size_t H, size_t D),                                                              \
      (y, lse, qkv, work, drop, B, T, H, D))                                                       \
    /* dqkv (B, T, 3, H, D) = ... */                                                               \
    X(attention_backward, FLOPS, 2 * attention_flops(B, T, H, D),                                  \
      (void *dqkv, const void *dy, const void *qkv, const void *y, const float *lse, void *work,   \
       const dropout_args *drop, size_t B, size_t T, size_t H, size_t D),                          \
      (dqkv, dy, qkv, y, lse, work, drop, B, T, H, D))                                             \
    /* x (T, C) = row tokens[t] - first of table (V, C), or zero where that is outside [0, V) */   \
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
    /* x (rows, C), rows [first, first + rows) of a micro-batch's (B, T, C): row i += row
     * (first + i) % T of table (T, C) */                                                          \
    X(position_forward, BYTES, numbers(d, 2 * rows * C + T * C),                                   \
      (void *x, const void *table, size_t first, size_t rows, size_t T, size_t C),                 \
      (x, table, first, rows, T, C))                                                               \
    /* dtable (T, C) (+)= sum over the rows of dx (rows, C) with each position, ascending; where there
     * is none GRAD_SET sets zero */                                                               \
    X(position_backward, BYTES, numbers(d, rows * C) + gradients(d, moves(mode) * T * C),          \
      (void *dtable, const void *dx, size_t first, size_t rows, size_t T, size_t C,                \
       grad_mode mode),                                                                            \
      (dtable, dx, first, rows, T, C, mode))                                                       \
    /* Cross-entropy over one shard of the vocabulary: the shard's V columns, of which the first
     * `valid` are real and the rest padding that must not count; column v is token first + v.
     * In one pass over logits (T, V): max (T) = maximum over the valid columns, -inf if there is
     * none; sums (T, 2) = {sum over the valid columns of exp(logit - max), 0 if max is -inf; the
     * target's logit if the target lies in this shard, else 0}.
     * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3 */   \
    X(xent_forward, BYTES, numbers(d, T * valid) + floats(3 * T),                                  \
      (float *max, float *sums, const void *logits, const int32_t *targets, int32_t first,         \
       size_t T, size_t V, size_t valid),                                                          \
      (max, sums, logits, targets, first, T, V, valid))                                            \
    /* sums[t][0] *= exp(own[t] - max[t]): what was summed below the shard's own maximum then counts
     * below the vocabulary's, which is not smaller. own (T), max (T) */                           \
    X(xent_rescale, BYTES, floats(4 * T),                                                          \
      (float *sums, const float *own, const float *max, size_t T),                                 \
      (sums, own, max, T))                                                                         \
    /* *loss (in the device's memory) += scale * sum over t, in double and in an order that T alone
     * decides (ascending on processors), of log(sums[t][0]) + (max[t] - sums[t][1]) */            \
    X(xent_loss, BYTES, floats(3 * T),                                                             \
      (double *loss, const float *max, const float *sums, double scale, size_t T),                 \
      (loss, max, sums, scale, T))                                                                 \
    /* logits (T, V) becomes its gradient: (softmax - onehot(target)) * scale; padding columns =
     * 0 */                                                                                        \
    X(xent_backward, BYTES, numbers(d, T * valid + T * V) + floats(3 * T),                         \
      (void *logits, const float *max, const float *sums, const int32_t *targets, int32_t first,   \
       float scale, size_t T, size_t V, size_t valid),                                             \
      (logits, max, sums, targets, first, scale, T, V, valid))                                     \
    /* y (n) += x (n), gradients */                                                                \
    X(add, BYTES, gradients(d, 3 * n),                                                             \
      (void *y, const void *x, size_t n),                                                          \
      (y, x, n))                                                                                   \
    /* sums (count, in the device's memory) = sums of squares of each part of x in double, by blocks of
     * SUM_SQUARES_BLOCK that begin where the part does; x are gradients */                        \
    X(sum_squares, BYTES, gradients(d, ops_parts_sum(parts, count)),                               \
      (double *sums, const void *x, const ops_part *parts, int count),                             \
      (sums, x, parts, count))                                                                     \
    /* One pass over the parts' elements: w, m, v updated from g. w is fp32; where the compute type is
     * not, it is the master, and copy = w, rounded to the compute type. Else copy is NULL.
     * w -= lr * (decay * w + mhat / (sqrt(vhat) + eps)) */                                        \
    X(adamw, BYTES, floats(6 * ops_parts_sum(parts, count)) +                                      \
      gradients(d, ops_parts_sum(parts, count)) +                                                  \
      (copy ? numbers(d, ops_parts_sum(parts, count)) : 0),                                        \
      (float *w, float *m, float *v, void *copy, const void *g, const ops_part *parts, int count,  \
       const adamw_args *args),                                                                    \
      (w, m, v, copy, g, parts, count, args))                                                      \
    /* Attention of n new rows, qkv (n, 3, H, D), at positions [past, past + n) of one sequence, whose
     * earlier keys and values are kept: keys (H, D, M), transposed, so that a new query meets them in
     * vectors, values (H, M, D); past + n <= M. The new rows' k and v are put there, then y (n, H, D)
     * = softmax(q k^T / sqrt(D)) v over the positions up to each row's own. What lies behind them is
     * not read. y is what attention_forward gives in these rows, on processors to the bit, however
     * many rows come at a time. `work` holds attention_workspace(1, M, H, D) bytes.
     * Pope et al., "Efficiently scaling transformer inference", MLSys 2023, section 2 */          \
    X(attention_cached, FLOPS, (4 * past + 2 * n) * n * H * D,                                     \
      (void *y, void *keys, void *values, const void *qkv, void *work, size_t past, size_t n,      \
       size_t M, size_t H, size_t D),                                                              \
      (y, keys, values, qkv, work, past, n, M, H, D))

#define OPS_PLAIN(...) __VA_ARGS__ /* what stands in parentheses, without them */

typedef struct ops {
#define OPS_MEMBER(name, unit, work, takes, names) \
    trine_status (*name)(device *d, OPS_PLAIN takes);
    OPS_LIST(OPS_MEMBER, OPS_MEMBER)
#undef OPS_MEMBER
    /* Bytes of scratch that attention needs in both directions. Pure. */
    size_t (*attention_workspace)(const device *d, size_t B, size_t T, size_t H, size_t D);
} ops;

/* The same of n elements. */
static inline trine_status ops_sum_squares(device *d, double *sum, const void *x, size_t n) {
    const ops_part all = {0, n, false};
    return d->ops->sum_squares(d, sum, x, &all, 1);
}
static inline trine_status ops_adamw(device *d, float *w, float *m, float *v, void *copy,
                                     const void *g, size_t n, const adamw_args *args) {
    const ops_part all = {0, n, true};
    return d->ops->adamw(d, w, m, v, copy, g, &all, 1, args);
}

/* Elements of all parts; and those from the pointers on to the last part's end. */
static inline size_t ops_parts_sum(const ops_part *parts, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i].n;
    return sum;
}
static inline size_t ops_parts_end(const ops_part *parts, int count) {
    return count ? parts[count - 1].at + parts[count - 1].n : 0;
}

extern const ops ops_ref; /* cpu has a table for each pair of types: cpu_table of cpu/cpu.h */

#ifdef __cplusplus
}
#endif

#endif
