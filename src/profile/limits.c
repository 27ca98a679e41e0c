#include "profile/limits.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/status.h"
#include "device/ops.h"

#define QUEUED 8
#define BUFFER ((size_t)7 << 16) /* elements: a multiple of the fill pattern */

/* What is measured: a device function with its operands. */
typedef struct {
    device *d;
    void *a, *b, *c, *g; /* g: gradients, of a matmul only */
    size_t T, N, K;      /* of a matmul; n = T in a triad */
    uint64_t run_ns;
} task;

typedef trine_status (*task_run)(const task *t);

static trine_status run_forward(const task *t) {
    return t->d->ops->linear_forward(t->d, t->a, t->b, NULL, t->c, t->T, t->N, t->K);
}

static trine_status run_backward_input(const task *t) {
    return t->d->ops->linear_backward_input(t->d, t->c, t->b, t->a, t->T, t->N, t->K);
}

static trine_status run_backward_weight(const task *t) {
    return t->d->ops->linear_backward_weight(t->d, t->g, NULL, t->a, t->c, t->T, t->N, t->K,
                                             GRAD_ADD);
}

static trine_status run_triad(const task *t) {
    float *restrict a = t->a;
    const float *restrict b = t->b, *restrict c = t->c;
#pragma omp parallel for simd num_threads(t->d->threads) schedule(static)
    for (size_t i = 0; i < t->T; i++) a[i] = b[i] + 3.0f * c[i];
    return TRINE_OK;
}

/* The equivalent for device memory. */
static trine_status run_copy(const task *t) {
    device_copy(t->d, t->a, t->b, t->T * sizeof(float));
    return TRINE_OK;
}

/* The calls between two clock reads. A device queue must stay busy, so that the launch latency is not
 * measured. */
static trine_status run_some(const task *t, task_run run, uint64_t *calls) {
    int count = t->d->memory->host ? 1 : QUEUED;
    for (int i = 0; i < count; i++) TRY(run(t));
    *calls += (uint64_t)count;
    return device_wait(t->d);
}

/* One run: a fixed time instead of a number of calls, so that ranks that start together end together. */
static trine_status measure_run(const task *t, task_run run, double work, double *rate) {
    uint64_t calls = 0, ns = 0, since = clock_ns();
    while (ns < t->run_ns) {
        TRY(run_some(t, run, &calls));
        ns = clock_ns() - since;
    }
    double own = work * (double)calls / (1e-9 * (double)ns);
    if (own > *rate) *rate = own;
    return TRINE_OK;
}

/* *rate = the highest rate of `run`, which does `work` per call. */
static trine_status measure(const task *t, task_run run, double work, double *rate) {
    *rate = 0;
    TRY(run(t)); /* creates the library's primitive */
    for (int i = 0; i < LIMIT_RUNS; i++) TRY(measure_run(t, run, work, rate));
    return TRINE_OK;
}

static void store(void *x, size_t i, float value, trine_dtype type) {
    if (type == TRINE_F32)
        ((float *)x)[i] = value;
    else
        ((uint16_t *)x)[i] = type == TRINE_BF16 ? bf16_store(value) : f16_store(value);
}

/* Written by the threads that will use it, for NUMA locality. Small values: sums over all calls stay
 * finite. */
static void fill(const device *d, void *x, size_t n, trine_dtype type) {
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < n; i++) store(x, i, 1e-3f * (float)(i % 7 + 1), type);
}

/* The same through a buffer in host memory. */
static trine_status write_filled(device *d, char *x, size_t n, trine_dtype type) {
    size_t element = trine_dtype_bytes(type);
    void *buffer = malloc(BUFFER * element);
    CHECK(buffer, TRINE_ENOMEM, "no memory for the operands of a limit");
    fill(d, buffer, n < BUFFER ? n : BUFFER, type);
    trine_status status = TRINE_OK;
    for (size_t at = 0; status == TRINE_OK && at < n; at += BUFFER) {
        size_t count = n - at < BUFFER ? n - at : BUFFER;
        status = device_write(d, x + at * element, buffer, count * element);
    }
    free(buffer);
    return status;
}

static trine_status take(device *d, void **x, size_t n, trine_dtype type) {
    TRY(device_alloc(d, x, n * trine_dtype_bytes(type)));
    if (!d->memory->host) return write_filled(d, *x, n, type);
    fill(d, *x, n, type);
    return TRINE_OK;
}

/* Elements and type of the operands; g has the device's gradient type. */
typedef struct {
    size_t a, b, c, g;
    trine_dtype type;
} operands;

/* Runs `body` with them. */
static trine_status with_operands(task *t, const operands *n,
                                  trine_status (*body)(const task *t, void *out), void *out) {
    size_t element = trine_dtype_bytes(n->type);
    trine_status status = take(t->d, &t->a, n->a, n->type);
    if (status == TRINE_OK) status = take(t->d, &t->b, n->b, n->type);
    if (status == TRINE_OK) status = take(t->d, &t->c, n->c, n->type);
    if (status == TRINE_OK) status = take(t->d, &t->g, n->g, t->d->grads);
    if (status == TRINE_OK) status = body(t, out);
    device_free(t->d, t->a, n->a * element);
    device_free(t->d, t->b, n->b * element);
    device_free(t->d, t->c, n->c * element);
    device_free(t->d, t->g, n->g * trine_dtype_bytes(t->d->grads));
    return status;
}

static trine_status measure_matmuls(const task *t, void *out) {
    limit_matmul *rates = out;
    double flops = 2.0 * (double)t->T * (double)t->N * (double)t->K;
    TRY(measure(t, run_forward, flops, &rates->forward));
    TRY(measure(t, run_backward_input, flops, &rates->backward_input));
    return measure(t, run_backward_weight, flops, &rates->backward_weight);
}

trine_status limit_matmul_rates(device *d, size_t T, size_t N, size_t K, limit_matmul *rates) {
    task t = {.d = d, .T = T, .N = N, .K = K, .run_ns = LIMIT_RUN_NS};
    operands n = {T * N, N * K, T * K, N * K, d->compute};
    return with_operands(&t, &n, measure_matmuls, rates);
}

static trine_status measure_forward(const task *t, void *out) {
    return measure(t, run_forward, 2.0 * (double)t->T * (double)t->N * (double)t->K, out);
}

trine_status limit_forward_rate_in(device *d, size_t T, size_t N, size_t K, uint64_t run_ns,
                                   double *rate) {
    task t = {.d = d, .T = T, .N = N, .K = K, .run_ns = run_ns};
    operands n = {T * N, N * K, T * K, 0, d->compute};
    return with_operands(&t, &n, measure_forward, rate);
}

static trine_status measure_triad(const task *t, void *out) {
    double bytes = sizeof(float) * (double)t->T;
    return t->d->memory->host ? measure(t, run_triad, 3 * bytes, out)
                              : measure(t, run_copy, 2 * bytes, out);
}

trine_status limit_triad_rate_in(device *d, size_t bytes, uint64_t run_ns, double *rate) {
    task t = {.d = d, .T = bytes / sizeof(float), .run_ns = run_ns};
    operands n = {t.T, t.T, d->memory->host ? t.T : 0, 0, TRINE_F32};
    return with_operands(&t, &n, measure_triad, rate);
}

trine_status limit_triad_rate(device *d, size_t bytes, double *rate) {
    return limit_triad_rate_in(d, bytes, LIMIT_RUN_NS, rate);
}
