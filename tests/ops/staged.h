/* Devices for tests that wrap another device with separate memory: operators copy their operands to
 * memory of the inner device, run its operator, and copy its outputs back. So the same cases and
 * tests apply to all devices.
 *
 *   emulated, gpu  the cuda device: the object of build/emu, whose kernels run on the CPU, and
 *                  build/libtrine_cuda.so, if there is a GPU. The host cannot access its memory.
 *   floats         of any device that computes in 16 bits: the test's elements and gradients are
 *                  floats, which are rounded on the way in and exact on the way out.
 *
 * Invariants: a buffer on the device has the same offset from a multiple of 256 bytes as on the host
 * (in floats: the same number of elements), and on a GPU ends where its allocation ends; one host
 * buffer is one device buffer (in place stays in place); operands that an operator only reads are
 * unchanged afterwards. Cost: an allocation, two copies and a comparison for each buffer. */
#ifndef TRINE_TESTS_OPS_STAGED_H
#define TRINE_TESTS_OPS_STAGED_H

#include <dlfcn.h>
#include <unistd.h>

#include "base/half.h"
#include "base/status.h"
#include "device/cuda/backend.h"
#include "ops/fixture.h"

#define STAGED_OPERANDS 12

typedef enum { STAGED_EMULATED, STAGED_GPU, STAGED_KINDS } staged_kind;

typedef struct {
    char *host, *base; /* the buffer lies at base + lead */
    size_t count, lead;
    trine_dtype type;
    bool written;
} staged_operand;

typedef struct {
    device device; /* what tests call; its state is this struct */
    device inner;
    device *opened;              /* the inner device, if it runs on the processor */
    const cuda_backend *backend; /* of a cuda device */
    bool floats;                 /* the host's elements of 16 bits are floats */
    staged_operand operands[STAGED_OPERANDS];
    size_t count;
} staged;

/* ---- Buffers --------------------------------------------------------------------------------- */

static inline bool staged_converts(const staged *s, trine_dtype type) {
    return s->floats && (type == TRINE_BF16 || type == TRINE_F16);
}

/* Bytes of n of the host's elements that are of `type` on the device. */
static inline size_t staged_host_bytes(const staged *s, trine_dtype type, size_t n) {
    return n * (staged_converts(s, type) ? sizeof(float) : trine_dtype_bytes(type));
}

/* The host's elements as the device has them; freed with free. */
static inline void *staged_pack(const staged *s, const void *host, trine_dtype type, size_t n) {
    uint16_t *packed = fixture_bytes(n * trine_dtype_bytes(type));
    if (n && !staged_converts(s, type)) memcpy(packed, host, n * trine_dtype_bytes(type));
    const float *x = host;
    for (size_t i = 0; staged_converts(s, type) && i < n; i++)
        packed[i] = type == TRINE_BF16 ? bf16_store(x[i]) : f16_store(x[i]);
    return packed;
}

static inline void staged_unpack(const staged *s, void *host, const void *packed, trine_dtype type,
                                 size_t n) {
    if (n && !staged_converts(s, type)) memcpy(host, packed, n * trine_dtype_bytes(type));
    float *x = host;
    const uint16_t *bits = packed;
    for (size_t i = 0; staged_converts(s, type) && i < n; i++)
        x[i] = type == TRINE_BF16 ? bf16_load(bits[i]) : f16_load(bits[i]);
}

/* The device address of `host` in an operand, or NULL. */
static inline char *staged_place(const staged *s, staged_operand *p, const char *host,
                                 trine_dtype type, size_t n) {
    const char *end = p->host + staged_host_bytes(s, p->type, p->count);
    if (host < p->host || host + staged_host_bytes(s, type, n) > end) return NULL;
    assert_true(n == 0 || type == p->type);
    size_t at = (size_t)(host - p->host) / staged_host_bytes(s, p->type, 1);
    return p->base + p->lead + at * trine_dtype_bytes(p->type);
}

/* As far behind a multiple of 256 bytes as on the host, since addresses must not matter to results. They matter to what
 * accesses cost, and those of the host's stack change with its environment: while costs are counted operands begin where
 * memory does, as in a training. */
static inline size_t staged_lead(const void *host) {
    return getenv("TRINE_EMU_ACCESSES") ? 0 : (uintptr_t)host % 256;
}

static inline void *staged_buffer(device *d, const void *host, size_t n, trine_dtype type,
                                  bool written) {
    staged *s = d->state;
    if (!host) return NULL;
    for (staged_operand *p = s->operands; p < s->operands + s->count; p++) {
        char *place = staged_place(s, p, host, type, n);
        if (!place) continue;
        p->written = p->written || written;
        return place;
    }
    assert_true(s->count < STAGED_OPERANDS);
    size_t unit = trine_dtype_bytes(type);
    size_t lead = staged_lead(host) / staged_host_bytes(s, type, 1) * unit;
    staged_operand *p = &s->operands[s->count++];
    *p = (staged_operand){.count = n, .lead = lead, .type = type, .written = written};
    memcpy(&p->host, &host, sizeof host);
    void *base, *packed = staged_pack(s, host, type, n);
    OK(device_alloc(&s->inner, &base, lead + n * unit + 1));
    p->base = base;
    OK(device_write(&s->inner, p->base + lead, packed, n * unit));
    free(packed);
    return p->base + lead;
}

static inline void staged_operand_end(staged *s, staged_operand *p, trine_status status) {
    size_t bytes = p->count * trine_dtype_bytes(p->type);
    char *back = fixture_bytes(bytes), *before = staged_pack(s, p->host, p->type, p->count);
    if (status == TRINE_OK) {
        OK(device_read(&s->inner, back, p->base + p->lead, bytes));
        if (p->written)
            staged_unpack(s, p->host, back, p->type, p->count);
        else if (bytes && memcmp(before, back, bytes) != 0)
            fail_msg("an operator wrote to a read-only operand");
    }
    device_free(&s->inner, p->base, p->lead + bytes + 1);
    free(back), free(before);
}

static inline trine_status staged_end(device *d, trine_status status) {
    staged *s = d->state;
    for (size_t i = 0; i < s->count; i++) staged_operand_end(s, &s->operands[i], status);
    s->count = 0;
    return status;
}

/* ---- Operators ------------------------------------------------------------------------------- */

/* n elements that are only read, or written: of four bytes (float, int32_t), of the compute type,
 * of gradients of parameters. */
#define STAGED_INNER         device *inner = &((staged *)d->state)->inner
#define STAGED_IN(p, n)      p = staged_buffer(d, p, n, TRINE_F32, false)
#define STAGED_OUT(p, n)     p = staged_buffer(d, p, n, TRINE_F32, true)
#define REAL_IN(p, n)        p = staged_buffer(d, p, n, d->compute, false)
#define REAL_OUT(p, n)       p = staged_buffer(d, p, n, d->compute, true)
#define GRAD_IN(p, n)        p = staged_buffer(d, p, n, d->grads, false)
#define GRAD_OUT(p, n)       p = staged_buffer(d, p, n, d->grads, true)
#define STAGED_CALL(op, ...) return staged_end(d, inner->ops->op(inner, __VA_ARGS__))

static trine_status staged_linear_forward(device *d, void *y, const void *w, const void *bias,
                                          const void *x, size_t T, size_t N, size_t K) {
    STAGED_INNER;
    REAL_OUT(y, T * N), REAL_IN(w, N * K), REAL_IN(bias, N), REAL_IN(x, T * K);
    STAGED_CALL(linear_forward, y, w, bias, x, T, N, K);
}

static trine_status staged_linear_residual(device *d, void *y, const void *w, const void *bias,
                                           const void *residual, const void *x, size_t T, size_t N,
                                           size_t K) {
    STAGED_INNER;
    REAL_OUT(y, T * N), REAL_IN(w, N * K), REAL_IN(bias, N), REAL_IN(x, T * K);
    REAL_IN(residual, T * N);
    STAGED_CALL(linear_residual, y, w, bias, residual, x, T, N, K);
}

static trine_status staged_linear_backward_input(device *d, void *dx, const void *w, const void *dy,
                                                 size_t T, size_t N, size_t K) {
    STAGED_INNER;
    REAL_OUT(dx, T * K), REAL_IN(w, N * K), REAL_IN(dy, T * N);
    STAGED_CALL(linear_backward_input, dx, w, dy, T, N, K);
}

static trine_status staged_linear_backward_weight(device *d, void *dw, void *dbias,
                                                  const void *dy, const void *x, size_t T, size_t N,
                                                  size_t K, grad_mode mode) {
    STAGED_INNER;
    GRAD_OUT(dw, N * K), GRAD_OUT(dbias, N), REAL_IN(dy, T * N), REAL_IN(x, T * K);
    STAGED_CALL(linear_backward_weight, dw, dbias, dy, x, T, N, K, mode);
}

static trine_status staged_bias_residual(device *d, void *y, const void *bias, const void *residual,
                                         size_t T, size_t N) {
    STAGED_INNER;
    REAL_OUT(y, T * N), REAL_IN(bias, N), REAL_IN(residual, T * N);
    STAGED_CALL(bias_residual, y, bias, residual, T, N);
}

static trine_status staged_dropout_residual(device *d, void *y, const void *bias,
                                            const void *residual, const dropout_args *drop,
                                            size_t T, size_t N) {
    STAGED_INNER;
    REAL_OUT(y, T * N), REAL_IN(bias, N), REAL_IN(residual, T * N);
    STAGED_CALL(dropout_residual, y, bias, residual, drop, T, N);
}

static trine_status staged_dropout(device *d, void *y, const void *x, const dropout_args *drop,
                                   size_t T, size_t N) {
    STAGED_INNER;
    REAL_OUT(y, T * N), REAL_IN(x, T * N);
    STAGED_CALL(dropout, y, x, drop, T, N);
}

static trine_status staged_bias_backward(device *d, void *dbias, const void *dy, size_t T,
                                         size_t N, grad_mode mode) {
    STAGED_INNER;
    GRAD_OUT(dbias, N), REAL_IN(dy, T * N);
    STAGED_CALL(bias_backward, dbias, dy, T, N, mode);
}

static trine_status staged_norm_forward(device *d, void *y, float *stat, const void *gain,
                                        const void *bias, const void *x, size_t T, size_t C) {
    STAGED_INNER;
    REAL_OUT(y, T * C), STAGED_OUT(stat, 2 * T);
    REAL_IN(gain, C), REAL_IN(bias, C), REAL_IN(x, T * C);
    STAGED_CALL(norm_forward, y, stat, gain, bias, x, T, C);
}

static trine_status staged_norm_backward(device *d, void *dx, void *dgain, void *dbias,
                                         const void *dy, const void *gain, const void *x,
                                         const float *stat, size_t T, size_t C, grad_mode stream,
                                         grad_mode mode) {
    STAGED_INNER;
    REAL_OUT(dx, T * C), GRAD_OUT(dgain, C), GRAD_OUT(dbias, C);
    REAL_IN(dy, T * C), REAL_IN(gain, C), REAL_IN(x, T * C), STAGED_IN(stat, 2 * T);
    STAGED_CALL(norm_backward, dx, dgain, dbias, dy, gain, x, stat, T, C, stream, mode);
}

static trine_status staged_rms_norm_forward(device *d, void *y, float *stat, const void *gain,
                                            const void *x, float eps, size_t T, size_t C) {
    STAGED_INNER;
    REAL_OUT(y, T * C), STAGED_OUT(stat, T), REAL_IN(gain, C), REAL_IN(x, T * C);
    STAGED_CALL(rms_norm_forward, y, stat, gain, x, eps, T, C);
}

static trine_status staged_rms_norm_backward(device *d, void *dx, void *dgain, const void *dy,
                                             const void *gain, const void *x, const float *stat,
                                             size_t T, size_t C, grad_mode stream,
                                             grad_mode mode) {
    STAGED_INNER;
    REAL_OUT(dx, T * C), GRAD_OUT(dgain, C);
    REAL_IN(dy, T * C), REAL_IN(gain, C), REAL_IN(x, T * C), STAGED_IN(stat, T);
    STAGED_CALL(rms_norm_backward, dx, dgain, dy, gain, x, stat, T, C, stream, mode);
}

static trine_status staged_qk_norm_forward(device *d, void *y, float *stat, const void *q_gain,
                                           const void *k_gain, const void *x, float eps, size_t T,
                                           size_t H, size_t K, size_t D) {
    STAGED_INNER;
    size_t n = T * (H + 2 * K) * D;
    REAL_OUT(y, n), STAGED_OUT(stat, T * (H + K));
    REAL_IN(q_gain, D), REAL_IN(k_gain, D), REAL_IN(x, n);
    STAGED_CALL(qk_norm_forward, y, stat, q_gain, k_gain, x, eps, T, H, K, D);
}

static trine_status staged_qk_norm_backward(device *d, void *dx, void *dq_gain, void *dk_gain,
                                            const void *dy, const void *q_gain, const void *k_gain,
                                            const void *x, const float *stat, size_t T, size_t H,
                                            size_t K, size_t D, grad_mode mode) {
    STAGED_INNER;
    size_t n = T * (H + 2 * K) * D;
    REAL_OUT(dx, n), GRAD_OUT(dq_gain, D), GRAD_OUT(dk_gain, D), REAL_IN(dy, n);
    REAL_IN(q_gain, D), REAL_IN(k_gain, D), REAL_IN(x, n), STAGED_IN(stat, T * (H + K));
    STAGED_CALL(qk_norm_backward, dx, dq_gain, dk_gain, dy, q_gain, k_gain, x, stat, T, H, K, D,
                mode);
}

static trine_status staged_swiglu_forward(device *d, void *y, const void *x, size_t T, size_t F) {
    STAGED_INNER;
    REAL_OUT(y, T * F), REAL_IN(x, 2 * T * F);
    STAGED_CALL(swiglu_forward, y, x, T, F);
}

static trine_status staged_swiglu_backward(device *d, void *dx, const void *dy, const void *x,
                                           size_t T, size_t F) {
    STAGED_INNER;
    REAL_OUT(dx, 2 * T * F), REAL_IN(dy, T * F), REAL_IN(x, 2 * T * F);
    STAGED_CALL(swiglu_backward, dx, dy, x, T, F);
}

static trine_status staged_gelu_forward(device *d, void *y, const void *x, size_t n) {
    STAGED_INNER;
    REAL_OUT(y, n), REAL_IN(x, n);
    STAGED_CALL(gelu_forward, y, x, n);
}

static trine_status staged_gelu_backward(device *d, void *dx, const void *dy, const void *x,
                                         size_t n) {
    STAGED_INNER;
    REAL_OUT(dx, n), REAL_IN(dy, n), REAL_IN(x, n);
    STAGED_CALL(gelu_backward, dx, dy, x, n);
}

static size_t staged_attention_workspace(const device *d, size_t B, size_t T, size_t H, size_t K, size_t D) {
    const staged *s = d->state;
    return s->inner.ops->attention_workspace(&s->inner, B, T, H, K, D);
}

static void *staged_work(device *d, void *work, size_t B, size_t T, size_t H, size_t K, size_t D) {
    return staged_buffer(d, work, staged_attention_workspace(d, B, T, H, K, D), TRINE_U8, true);
}

static trine_status staged_attention_forward(device *d, void *y, float *lse, const void *qkv,
                                             const int32_t *starts, void *work,
                                             const dropout_args *drop, size_t B, size_t T, size_t H,
                                             size_t K, size_t D) {
    STAGED_INNER;
    REAL_OUT(y, B * T * H * D), STAGED_OUT(lse, B * H * T), REAL_IN(qkv, B * T * (H + 2 * K) * D);
    STAGED_IN(starts, B * T);
    work = staged_work(d, work, B, T, H, K, D);
    STAGED_CALL(attention_forward, y, lse, qkv, starts, work, drop, B, T, H, K, D);
}

static trine_status staged_attention_backward(device *d, void *dqkv, const void *dy,
                                              const void *qkv, const void *y, const float *lse,
                                              const int32_t *starts, void *work,
                                              const dropout_args *drop, size_t B, size_t T, size_t H,
                                              size_t K, size_t D) {
    STAGED_INNER;
    size_t n = B * T * H * D, all = B * T * (H + 2 * K) * D;
    REAL_OUT(dqkv, all), REAL_IN(dy, n), REAL_IN(qkv, all), REAL_IN(y, n);
    STAGED_IN(lse, B * H * T), STAGED_IN(starts, B * T);
    work = staged_work(d, work, B, T, H, K, D);
    STAGED_CALL(attention_backward, dqkv, dy, qkv, y, lse, starts, work, drop, B, T, H, K, D);
}

static trine_status staged_embedding_forward(device *d, void *x, const void *table,
                                             const int32_t *tokens, int32_t first, size_t T,
                                             size_t C, size_t V) {
    STAGED_INNER;
    REAL_OUT(x, T * C), REAL_IN(table, V * C), STAGED_IN(tokens, T);
    STAGED_CALL(embedding_forward, x, table, tokens, first, T, C, V);
}

static trine_status staged_embedding_backward(device *d, void *dtable, const void *dx,
                                              const int32_t *tokens, int32_t first, size_t T,
                                              size_t C, size_t V, grad_mode mode) {
    STAGED_INNER;
    GRAD_OUT(dtable, V * C), REAL_IN(dx, T * C), STAGED_IN(tokens, T);
    STAGED_CALL(embedding_backward, dtable, dx, tokens, first, T, C, V, mode);
}

static trine_status staged_position_forward(device *d, void *x, const void *table,
                                            const int32_t *starts, size_t first, size_t rows, size_t T,
                                            size_t C) {
    STAGED_INNER;
    REAL_OUT(x, rows * C), REAL_IN(table, T * C), STAGED_IN(starts, first + rows);
    STAGED_CALL(position_forward, x, table, starts, first, rows, T, C);
}

static trine_status staged_position_backward(device *d, void *dtable, const void *dx,
                                             const int32_t *starts, size_t first, size_t rows, size_t T,
                                             size_t C, grad_mode mode) {
    STAGED_INNER;
    GRAD_OUT(dtable, T * C), REAL_IN(dx, rows * C), STAGED_IN(starts, first + rows);
    STAGED_CALL(position_backward, dtable, dx, starts, first, rows, T, C, mode);
}

static trine_status staged_rope(device *d, void *x, const float *table, const int32_t *starts,
                                bool inverse, size_t first, size_t rows, size_t T, size_t heads,
                                size_t rotated, size_t D) {
    STAGED_INNER;
    REAL_OUT(x, rows * heads * D), STAGED_IN(table, T * D), STAGED_IN(starts, first + rows);
    STAGED_CALL(rope, x, table, starts, inverse, first, rows, T, heads, rotated, D);
}

static trine_status staged_xent_forward(device *d, float *max, float *sums, const void *logits,
                                        const int32_t *targets, int32_t first, size_t T, size_t V,
                                        size_t valid) {
    STAGED_INNER;
    STAGED_OUT(max, T), STAGED_OUT(sums, 2 * T), REAL_IN(logits, T * V), STAGED_IN(targets, T);
    STAGED_CALL(xent_forward, max, sums, logits, targets, first, T, V, valid);
}

static trine_status staged_xent_max(device *d, float *max, const float *own, size_t parts, size_t T) {
    STAGED_INNER;
    STAGED_OUT(max, T), STAGED_IN(own, parts * T);
    STAGED_CALL(xent_max, max, own, parts, T);
}

static trine_status staged_xent_rescale(device *d, float *sums, const float *own, const float *max,
                                        size_t T) {
    STAGED_INNER;
    STAGED_OUT(sums, 2 * T), STAGED_IN(own, T), STAGED_IN(max, T);
    STAGED_CALL(xent_rescale, sums, own, max, T);
}

static trine_status staged_xent_loss(device *d, double *loss, const float *max, const float *sums,
                                     const int32_t *targets, double scale, size_t T) {
    STAGED_INNER;
    STAGED_OUT(loss, 2), STAGED_IN(max, T), STAGED_IN(sums, 2 * T), STAGED_IN(targets, T);
    STAGED_CALL(xent_loss, loss, max, sums, targets, scale, T);
}

static trine_status staged_xent_backward(device *d, void *logits, const float *max,
                                         const float *sums, const int32_t *targets, int32_t first,
                                         float scale, size_t T, size_t V, size_t valid) {
    STAGED_INNER;
    REAL_OUT(logits, T * V), STAGED_IN(max, T), STAGED_IN(sums, 2 * T), STAGED_IN(targets, T);
    STAGED_CALL(xent_backward, logits, max, sums, targets, first, scale, T, V, valid);
}

static trine_status staged_add(device *d, void *y, const void *x, size_t n) {
    STAGED_INNER;
    GRAD_OUT(y, n), GRAD_IN(x, n);
    STAGED_CALL(add, y, x, n);
}

static trine_status staged_sum_squares(device *d, double *sums, const void *x,
                                       const ops_part *parts, int count) {
    STAGED_INNER;
    const size_t n = ops_parts_end(parts, count);
    STAGED_OUT(sums, 2 * (size_t)count), GRAD_IN(x, n);
    STAGED_CALL(sum_squares, sums, x, parts, count);
}

static trine_status staged_sum_squares_exact(device *d, int64_t *digits, const void *x,
                                             const ops_part *parts, int count) {
    STAGED_INNER;
    const size_t n = ops_parts_end(parts, count);
    STAGED_OUT(digits, 2 * SQUARES_DIGITS), GRAD_IN(x, n);
    STAGED_CALL(sum_squares_exact, digits, x, parts, count);
}

static trine_status staged_sum_parts(device *d, void *y, bool y_wide, const void *x, bool x_wide,
                                     size_t parts, size_t stride, size_t n) {
    STAGED_INNER;
    const size_t span = n ? (parts - 1) * stride + n : 0;
    x = staged_buffer(d, x, span, x_wide ? TRINE_F32 : d->compute, false);
    y = staged_buffer(d, y, n, y_wide ? TRINE_F32 : d->compute, true);
    STAGED_CALL(sum_parts, y, y_wide, x, x_wide, parts, stride, n);
}

static trine_status staged_columns_add(device *d, void *y, const void *x, float scale, size_t T,
                                       size_t N, size_t at, size_t n) {
    STAGED_INNER;
    REAL_OUT(y, T * N), REAL_IN(x, T * n);
    STAGED_CALL(columns_add, y, x, scale, T, N, at, n);
}

static trine_status staged_columns_take(device *d, void *y, const void *x, float scale, size_t T,
                                        size_t N, size_t at, size_t n) {
    STAGED_INNER;
    REAL_OUT(y, T * n), REAL_IN(x, T * N);
    STAGED_CALL(columns_take, y, x, scale, T, N, at, n);
}

static trine_status staged_adamw(device *d, float *w, float *m, float *v, void *copy, const void *g,
                                 const ops_part *parts, int count, const adamw_args *args) {
    STAGED_INNER;
    const size_t n = ops_parts_end(parts, count);
    STAGED_OUT(w, n), STAGED_OUT(m, n), STAGED_OUT(v, n), REAL_OUT(copy, n), GRAD_IN(g, n);
    STAGED_CALL(adamw, w, m, v, copy, g, parts, count, args);
}

static trine_status staged_attention_cached(device *d, void *y, void *keys, void *values,
                                            const void *qkv, void *work, size_t past, size_t n,
                                            size_t M, size_t H, size_t K, size_t D) {
    STAGED_INNER;
    size_t kept = M * K * D;
    REAL_OUT(y, n * H * D), REAL_OUT(keys, kept), REAL_OUT(values, kept);
    REAL_IN(qkv, n * (H + 2 * K) * D);
    work = staged_work(d, work, 1, M, H, K, D);
    STAGED_CALL(attention_cached, y, keys, values, qkv, work, past, n, M, H, K, D);
}

static const ops staged_ops = {
    .linear_forward = staged_linear_forward,
    .linear_residual = staged_linear_residual,
    .linear_backward_input = staged_linear_backward_input,
    .linear_backward_weight = staged_linear_backward_weight,
    .bias_residual = staged_bias_residual,
    .dropout_residual = staged_dropout_residual,
    .dropout = staged_dropout,
    .columns_add = staged_columns_add,
    .columns_take = staged_columns_take,
    .bias_backward = staged_bias_backward,
    .norm_forward = staged_norm_forward,
    .norm_backward = staged_norm_backward,
    .rms_norm_forward = staged_rms_norm_forward,
    .rms_norm_backward = staged_rms_norm_backward,
    .qk_norm_forward = staged_qk_norm_forward,
    .qk_norm_backward = staged_qk_norm_backward,
    .swiglu_forward = staged_swiglu_forward,
    .swiglu_backward = staged_swiglu_backward,
    .gelu_forward = staged_gelu_forward,
    .gelu_backward = staged_gelu_backward,
    .attention_forward = staged_attention_forward,
    .attention_backward = staged_attention_backward,
    .attention_workspace = staged_attention_workspace,
    .embedding_forward = staged_embedding_forward,
    .embedding_backward = staged_embedding_backward,
    .position_forward = staged_position_forward,
    .position_backward = staged_position_backward,
    .rope = staged_rope,
    .xent_forward = staged_xent_forward,
    .xent_max = staged_xent_max,
    .xent_rescale = staged_xent_rescale,
    .xent_loss = staged_xent_loss,
    .xent_backward = staged_xent_backward,
    .add = staged_add,
    .sum_squares = staged_sum_squares,
    .sum_parts = staged_sum_parts,
    .sum_squares_exact = staged_sum_squares_exact,
    .adamw = staged_adamw,
    .attention_cached = staged_attention_cached,
};

/* ---- Opening --------------------------------------------------------------------------------- */

static inline trine_status staged_raise(trine_status status, const char *file, int line,
                                        const char *func, const char *message) {
    return status_raise(status, file, line, func, "%s", message);
}

/* The object in the build folder of this program (build/tests/ops/NAME). TRINE_CUDA_LIBRARY names another one
 * for the GPU, TRINE_EMU_LIBRARY for the emulated one. */
static inline void *staged_object(staged_kind kind, char *why, size_t size) {
    char path[4096] = "";
    const char *named = getenv(kind == STAGED_GPU ? "TRINE_CUDA_LIBRARY" : "TRINE_EMU_LIBRARY");
    const char *name = kind == STAGED_EMULATED ? "emu/" CUDA_LIBRARY : CUDA_LIBRARY;
    if (named) snprintf(path, sizeof path, "%s", named);
    ssize_t length = named ? 0 : readlink("/proc/self/exe", path, sizeof path - 64);
    for (int up = 0; up < 3 && length > 0; up++) *strrchr(path, '/') = '\0';
    if (!named) snprintf(path + strlen(path), 64, "/%s", name);
    if (access(path, R_OK) != 0) {
        snprintf(why, size, "no %s", named ? named : name);
        return NULL;
    }
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) snprintf(why, size, "%s", dlerror());
    return object;
}

static inline const cuda_backend *staged_backend(staged_kind kind, char *why, size_t size) {
    static const cuda_host host = {staged_raise, status_frame, status_assert_failed};
    void *object = staged_object(kind, why, size);
    if (!object) return NULL;
    cuda_load entry;
    *(void **)&entry = dlsym(object, CUDA_LOAD);
    assert_non_null(*(void **)&entry);
    const cuda_backend *backend = entry(&host);
    assert_int_equal(backend->abi, CUDA_ABI);
    char none[256] = "";
    if (backend->count(none, sizeof none) > 0) return backend;
    snprintf(why, size, "no GPU: %.200s", none);
    return NULL;
}

/* NULL with the reason if the device is not available. */
static inline device *staged_open_typed(staged_kind kind, trine_dtype compute, trine_dtype grads,
                                        char *why, size_t size) {
    const cuda_backend *backend = staged_backend(kind, why, size);
    if (!backend) return NULL;
    staged *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->backend = backend;
    s->inner = (device){.name = "cuda", .compute = compute, .grads = grads, .threads = 1};
    s->inner.ops = backend->ops_of(compute, grads), s->inner.memory = backend->memory;
    OK(backend->open(&s->inner, 0));
    s->device = s->inner;
    s->device.name = kind == STAGED_EMULATED ? "cuda, emulated" : "cuda";
    s->device.ops = &staged_ops, s->device.memory = NULL, s->device.state = s;
    return &s->device;
}

static inline device *staged_open(staged_kind kind, char *why, size_t size) {
    return staged_open_typed(kind, TRINE_F32, TRINE_F32, why, size);
}

/* Floats for a cuda device of these types. */
static inline device *staged_open_floats(staged_kind kind, trine_dtype compute, trine_dtype grads,
                                         char *why, size_t size) {
    device *d = staged_open_typed(kind, compute, grads, why, size);
    if (d) ((staged *)d->state)->floats = true;
    return d;
}

/* Floats for a device on the processor; NULL with the reason if it does not support the types. */
static inline device *staged_open_host(const device_config *config, char *why, size_t size) {
    device *opened;
    trine_status status = device_open_with(&opened, config);
    if (status == TRINE_EUNSUPPORTED) {
        snprintf(why, size, "%s", status_message());
        status_clear();
        return NULL;
    }
    OK(status);
    staged *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->opened = opened, s->inner = *opened, s->device = *opened, s->floats = true;
    s->device.ops = &staged_ops, s->device.memory = NULL, s->device.state = s;
    return &s->device;
}

static inline void staged_close(device **d) {
    staged *s = (*d)->state;
    if (s->opened)
        device_close(&s->opened);
    else
        s->backend->close(&s->inner);
    free(s);
    *d = NULL;
}

/* ---- All devices: cpu, ref, and the available ones of the two above --------------------------- */

#define EACH_DEVICE(d)                                                                             \
    for (int each_ = 0; each_ < 2 + STAGED_KINDS; each_++)                                         \
        for (device *d = each_open(each_); d; each_close(&d))

static inline device *each_open(int which) {
    char why[256];
    device *d;
    if (which >= 2) return staged_open((staged_kind)(which - 2), why, sizeof why);
    OK(device_open(&d, which ? DEVICE_REF : DEVICE_CPU, 2));
    return d;
}

/* The same with operands that are floats, computing in `type`: device `which` of EACH_FLOATS; NULL if there is none. */
#define EACH_FLOATS (2 + STAGED_KINDS)

static inline device *each_open_floats(int which, trine_dtype type) {
    const device_config config = {.kind = which ? DEVICE_REF : DEVICE_CPU, .threads = 3, .compute = type};
    char why[256];
    if (which < 2) return staged_open_host(&config, why, sizeof why);
    return staged_open_floats((staged_kind)(which - 2), type, TRINE_F32, why, sizeof why);
}

static inline bool is_staged(const device *d) {
    return d->ops == &staged_ops;
}

static inline void each_close(device **d) {
    if (is_staged(*d))
        staged_close(d);
    else
        device_close(d);
}

static inline bool has_linear_residual(const device *d) {
    return (is_staged(d) ? ((const staged *)d->state)->inner.ops : d->ops)->linear_residual;
}

/* ref with d's types, taking floats where d does; closed by each_close. */
static inline device *ref_of(const device *d) {
    const device_config config = {
        .kind = DEVICE_REF, .threads = 1, .compute = d->compute, .grads = d->grads};
    char why[256];
    device *ref;
    if (is_staged(d) && ((const staged *)d->state)->floats)
        return staged_open_host(&config, why, sizeof why);
    OK(device_open_with(&ref, &config));
    return ref;
}

#endif
