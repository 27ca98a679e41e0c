#include "profile/device.h"

#include "base/clock.h"
#include "device/ops.h"
#include "profile/spans.h"

static const struct {
    const char *text;
    device_work work;
} timed[DEVICE_TIMED] = {
#define TIMED_ROW(name, work) {#name, work},
    DEVICE_TIMED_LIST(TIMED_ROW)
#undef TIMED_ROW
};

const char *device_timed_text(device_timed which) {
    return timed[which].text;
}

device_work device_timed_work(device_timed which) {
    return timed[which].work;
}

static uint64_t begin(device_profile *p) {
    if (p->spans) spans_before(p->spans);
    return clock_ns();
}

static void note(device_profile *p, device_timed which, uint64_t since, uint64_t work) {
    uint64_t ns = clock_ns() - since;
    if (p->spans) spans_behind(p->spans, which);
    p->times[which].calls++;
    p->times[which].ns += ns;
    p->times[which].work += work;
    p->ns += ns;
}

/* An operator that may return before it is done is waited for, unless there are marks around it:
 * its time is its own then. */
static trine_status finish(device_profile *p) {
    return p->inner->memory->host || p->spans ? TRINE_OK : device_wait(p->inner);
}

/* The body of a timed operator: `work_` is what it has to do, the rest its arguments. */
#define TIMED(op, work_, ...)                                                                      \
    device_profile *p = d->state;                                                                  \
    uint64_t since = begin(p);                                                                     \
    trine_status status = p->inner->ops->op(p->inner, __VA_ARGS__);                                \
    if (status == TRINE_OK) status = finish(p);                                                    \
    note(p, TIMED_##op, since, (work_));                                                           \
    return status

/* ---- Work --------------------------------------------------------------------------------------
 * Bytes of `n` numbers of the compute type, and of others. */

static uint64_t numbers(const device *d, size_t n) {
    return n * trine_dtype_bytes(d->compute);
}

static uint64_t floats(size_t n) {
    return n * sizeof(float);
}

/* Of the type of gradients of parameters. */
static uint64_t gradients(const device *d, size_t n) {
    return n * trine_dtype_bytes(d->grads);
}

/* Half of the (T, T) scores, twice: q k^T and p v. */
static uint64_t attention_flops(size_t B, size_t T, size_t H, size_t D) {
    return 2 * B * T * T * H * D;
}

/* ---- Flops ----------------------------------------------------------------------------------- */

static trine_status timed_linear_forward(device *d, void *y, const void *w, const void *bias,
                                         const void *x, size_t T, size_t N, size_t K) {
    TIMED(linear_forward, 2 * T * N * K, y, w, bias, x, T, N, K);
}

static trine_status timed_linear_residual(device *d, void *y, const void *w, const void *bias,
                                          const void *residual, const void *x, size_t T, size_t N,
                                          size_t K) {
    TIMED(linear_residual, 2 * T * N * K, y, w, bias, residual, x, T, N, K);
}

static trine_status timed_linear_backward_input(device *d, void *dx, const void *w, const void *dy,
                                                size_t T, size_t N, size_t K) {
    TIMED(linear_backward_input, 2 * T * N * K, dx, w, dy, T, N, K);
}

static trine_status timed_linear_backward_weight(device *d, void *dw, void *dbias, const void *dy,
                                                 const void *x, size_t T, size_t N, size_t K,
                                                 grad_mode mode) {
    TIMED(linear_backward_weight, 2 * T * N * K, dw, dbias, dy, x, T, N, K, mode);
}

static trine_status timed_attention_forward(device *d, void *y, float *lse, const void *qkv,
                                            void *work, const dropout_args *drop, size_t B,
                                            size_t T, size_t H, size_t D) {
    TIMED(attention_forward, attention_flops(B, T, H, D), y, lse, qkv, work, drop, B, T, H, D);
}

static trine_status timed_attention_backward(device *d, void *dqkv, const void *dy, const void *qkv,
                                             const void *y, const float *lse, void *work,
                                             const dropout_args *drop, size_t B, size_t T, size_t H,
                                             size_t D) {
    TIMED(attention_backward, 2 * attention_flops(B, T, H, D), dqkv, dy, qkv, y, lse, work, drop, B,
          T, H, D);
}

static size_t timed_attention_workspace(const device *d, size_t B, size_t T, size_t H, size_t D) {
    const device_profile *p = d->state;
    return p->inner->ops->attention_workspace(p->inner, B, T, H, D);
}

/* Each new row with all earlier ones, and half of the new ones with each other. */
static trine_status timed_attention_cached(device *d, void *y, void *keys, void *values,
                                           const void *qkv, void *work, size_t past, size_t n,
                                           size_t M, size_t H, size_t D) {
    TIMED(attention_cached, (4 * past + 2 * n) * n * H * D, y, keys, values, qkv, work, past, n, M,
          H, D);
}

/* ---- Bytes; operands that `+=` are read and written ------------------------------------------ */

/* How often a gradient's numbers are moved. */
static size_t moves(grad_mode mode) {
    return mode == GRAD_ADD ? 2 : 1;
}

static trine_status timed_bias_residual(device *d, void *y, const void *bias, const void *residual,
                                        size_t T, size_t N) {
    TIMED(bias_residual, numbers(d, (residual ? 3 : 2) * T * N + (bias ? N : 0)), y, bias, residual,
          T, N);
}

static trine_status timed_dropout_residual(device *d, void *y, const void *bias,
                                           const void *residual, const dropout_args *drop, size_t T,
                                           size_t N) {
    TIMED(dropout_residual, numbers(d, 3 * T * N + (bias ? N : 0)), y, bias, residual, drop, T, N);
}

static trine_status timed_dropout(device *d, void *y, const void *x, const dropout_args *drop,
                                  size_t T, size_t N) {
    TIMED(dropout, numbers(d, 2 * T * N), y, x, drop, T, N);
}

static trine_status timed_bias_backward(device *d, void *dbias, const void *dy, size_t T, size_t N,
                                        grad_mode mode) {
    TIMED(bias_backward, numbers(d, T * N) + gradients(d, moves(mode) * N), dbias, dy, T, N, mode);
}

static trine_status timed_norm_forward(device *d, void *y, float *stat, const void *gain,
                                       const void *bias, const void *x, size_t T, size_t C) {
    TIMED(norm_forward, numbers(d, 2 * T * C + 2 * C) + floats(2 * T), y, stat, gain, bias, x, T,
          C);
}

static trine_status timed_norm_backward(device *d, void *dx, void *dgain, void *dbias,
                                        const void *dy, const void *gain, const void *x,
                                        const float *stat, size_t T, size_t C, grad_mode stream,
                                        grad_mode mode) {
    TIMED(norm_backward,
          numbers(d, (2 + moves(stream)) * T * C + C) + gradients(d, 2 * moves(mode) * C) +
              floats(2 * T),
          dx, dgain, dbias, dy, gain, x, stat, T, C, stream, mode);
}

static trine_status timed_gelu_forward(device *d, void *y, const void *x, size_t n) {
    TIMED(gelu_forward, numbers(d, 2 * n), y, x, n);
}

static trine_status timed_gelu_backward(device *d, void *dx, const void *dy, const void *x,
                                        size_t n) {
    TIMED(gelu_backward, numbers(d, 3 * n), dx, dy, x, n);
}

/* As if every token lay in the shard: which ones do, only the data says. */
static trine_status timed_embedding_forward(device *d, void *x, const void *table,
                                            const int32_t *tokens, int32_t first, size_t T,
                                            size_t C, size_t V) {
    TIMED(embedding_forward, numbers(d, 2 * T * C), x, table, tokens, first, T, C, V);
}

static trine_status timed_embedding_backward(device *d, void *dtable, const void *dx,
                                             const int32_t *tokens, int32_t first, size_t T,
                                             size_t C, size_t V, grad_mode mode) {
    size_t zeroed = mode == GRAD_SET ? V * C : 0;
    TIMED(embedding_backward, numbers(d, T * C) + gradients(d, 2 * T * C + zeroed), dtable, dx,
          tokens, first, T, C, V, mode);
}

static trine_status timed_position_forward(device *d, void *x, const void *table, size_t first,
                                           size_t rows, size_t T, size_t C) {
    TIMED(position_forward, numbers(d, 2 * rows * C + T * C), x, table, first, rows, T, C);
}

static trine_status timed_position_backward(device *d, void *dtable, const void *dx, size_t first,
                                            size_t rows, size_t T, size_t C, grad_mode mode) {
    TIMED(position_backward, numbers(d, rows * C) + gradients(d, moves(mode) * T * C), dtable, dx,
          first, rows, T, C, mode);
}

static trine_status timed_xent_forward(device *d, float *max, float *sums, const void *logits,
                                       const int32_t *targets, int32_t first, size_t T, size_t V,
                                       size_t valid) {
    TIMED(xent_forward, numbers(d, T * valid) + floats(3 * T), max, sums, logits, targets, first, T,
          V, valid);
}

static trine_status timed_xent_rescale(device *d, float *sums, const float *own, const float *max,
                                       size_t T) {
    TIMED(xent_rescale, floats(4 * T), sums, own, max, T);
}

static trine_status timed_xent_loss(device *d, double *loss, const float *max, const float *sums,
                                    double scale, size_t T) {
    TIMED(xent_loss, floats(3 * T), loss, max, sums, scale, T);
}

static trine_status timed_xent_backward(device *d, void *logits, const float *max,
                                        const float *sums, const int32_t *targets, int32_t first,
                                        float scale, size_t T, size_t V, size_t valid) {
    TIMED(xent_backward, numbers(d, T * valid + T * V) + floats(3 * T), logits, max, sums, targets,
          first, scale, T, V, valid);
}

static trine_status timed_add(device *d, void *y, const void *x, size_t n) {
    TIMED(add, gradients(d, 3 * n), y, x, n);
}

static trine_status timed_sum_squares(device *d, double *sums, const void *x, const ops_part *parts,
                                      int count) {
    TIMED(sum_squares, gradients(d, ops_parts_sum(parts, count)), sums, x, parts, count);
}

static trine_status timed_adamw(device *d, float *w, float *m, float *v, void *copy, const void *g,
                                const ops_part *parts, int count, const adamw_args *args) {
    size_t n = ops_parts_sum(parts, count);
    uint64_t copied = copy ? numbers(d, n) : 0;
    TIMED(adamw, floats(6 * n) + gradients(d, n) + copied, w, m, v, copy, g, parts, count, args);
}

static const ops timed_ops = {
    .linear_forward = timed_linear_forward,
    .linear_residual = timed_linear_residual,
    .linear_backward_input = timed_linear_backward_input,
    .linear_backward_weight = timed_linear_backward_weight,
    .bias_residual = timed_bias_residual,
    .dropout_residual = timed_dropout_residual,
    .dropout = timed_dropout,
    .bias_backward = timed_bias_backward,
    .norm_forward = timed_norm_forward,
    .norm_backward = timed_norm_backward,
    .gelu_forward = timed_gelu_forward,
    .gelu_backward = timed_gelu_backward,
    .attention_forward = timed_attention_forward,
    .attention_backward = timed_attention_backward,
    .attention_workspace = timed_attention_workspace,
    .embedding_forward = timed_embedding_forward,
    .embedding_backward = timed_embedding_backward,
    .position_forward = timed_position_forward,
    .position_backward = timed_position_backward,
    .xent_forward = timed_xent_forward,
    .xent_rescale = timed_xent_rescale,
    .xent_loss = timed_xent_loss,
    .xent_backward = timed_xent_backward,
    .add = timed_add,
    .sum_squares = timed_sum_squares,
    .adamw = timed_adamw,
    .attention_cached = timed_attention_cached,
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static trine_status timed_alloc(device *d, void **p, size_t bytes) {
    return device_alloc(((device_profile *)d->state)->inner, p, bytes);
}

static void timed_free(device *d, void *p, size_t bytes) {
    device_free(((device_profile *)d->state)->inner, p, bytes);
}

static void timed_copy(device *d, void *dst, const void *src, size_t bytes) {
    device_profile *p = d->state;
    uint64_t since = begin(p);
    device_copy(p->inner, dst, src, bytes);
    (void)finish(p); /* an error in the queue comes again with the next operator */
    note(p, TIMED_copy, since, 2 * bytes);
}

static void timed_zero(device *d, void *dst, size_t bytes) {
    device_profile *p = d->state;
    uint64_t since = begin(p);
    device_zero(p->inner, dst, bytes);
    (void)finish(p);
    note(p, TIMED_zero, since, bytes);
}

static trine_status timed_read(device *d, void *host, const void *src, size_t bytes) {
    return device_read(((device_profile *)d->state)->inner, host, src, bytes);
}

static trine_status timed_read_rows(device *d, void *host, const void *src, size_t stride,
                                    size_t bytes, size_t rows) {
    return device_read_rows(((device_profile *)d->state)->inner, host, src, stride, bytes, rows);
}

static trine_status timed_write(device *d, void *dst, const void *host, size_t bytes) {
    return device_write(((device_profile *)d->state)->inner, dst, host, bytes);
}

static trine_status timed_write_start(device *d, void *dst, const void *host, size_t bytes) {
    return device_write_start(((device_profile *)d->state)->inner, dst, host, bytes);
}

static trine_status timed_wait(device *d) {
    return device_wait(((device_profile *)d->state)->inner);
}

static const device_memory timed_memory = {
    .alloc = timed_alloc,
    .free = timed_free,
    .copy = timed_copy,
    .zero = timed_zero,
    .read = timed_read,
    .read_rows = timed_read_rows,
    .write = timed_write,
    .write_start = timed_write_start,
    .wait = timed_wait,
};

void device_profile_init(device_profile *p, device *inner) {
    *p = (device_profile){.device = *inner, .inner = inner};
    p->table = timed_ops;
    if (!inner->ops->linear_residual) p->table.linear_residual = NULL;
    p->device.ops = &p->table;
    p->memory = timed_memory;
    p->memory.host = inner->memory->host;
    p->device.memory = &p->memory;
    p->device.state = p;
}
