#include <math.h>
#include <string.h>

#include "device/cpu/element.h"
#include "device/cpu/exp.h"
#include "device/cpu/lanes.h"

/* The target's column among the shard's valid ones; `valid` itself if it lies elsewhere. */
static size_t target_column(int32_t target, int32_t first, size_t valid) {
    int64_t column = (int64_t)target - first;
    return column >= 0 && column < (int64_t)valid ? (size_t)column : valid;
}

trine_status CPU(xent_max)(device *d, float *max, const void *logits_, size_t T, size_t V,
                           size_t valid) {
    const element *logits = logits_; /* (T, V) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) max[t] = lanes_max(logits + t * V, valid);
    return TRINE_OK;
}

/* Pieces of CHUNK: their exponentials to the stack, then their sum in lanes, onto a double. */
#define CHUNK 512

static double row_sum(const element *row, float max, size_t valid) {
    float powers[CHUNK];
    double sum = 0.0;
    for (size_t start = 0; start < valid; start += CHUNK) {
        size_t n = valid - start < CHUNK ? valid - start : CHUNK;
#pragma omp simd
        for (size_t i = 0; i < n; i++) powers[i] = exp_fast(element_get(row[start + i]) - max);
        sum += (double)lanes_sum(powers, n);
    }
    return sum;
}

trine_status CPU(xent_sums)(device *d, float *sums, const void *logits_, const float *max,
                            const int32_t *targets, int32_t first, size_t T, size_t V,
                            size_t valid) {
    const element *logits = logits_; /* (T, V) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        size_t target = target_column(targets[t], first, valid);
        sums[2 * t] = (float)row_sum(logits + t * V, max[t], valid);
        sums[2 * t + 1] = target < valid ? element_get(logits[t * V + target]) - max[t] : 0.0f;
    }
    return TRINE_OK;
}

/* T logarithms, added in order: nothing to split. */
trine_status CPU(xent_loss)(device *d, double *loss, const float *sums, double scale, size_t T) {
    (void)d;
    double sum = 0.0;
    for (size_t t = 0; t < T; t++) sum += log((double)sums[2 * t]) - (double)sums[2 * t + 1];
    *loss += scale * sum;
    return TRINE_OK;
}

trine_status CPU(xent_backward)(device *d, void *logits_, const float *max, const float *sums,
                                const int32_t *targets, int32_t first, float scale, size_t T,
                                size_t V, size_t valid) {
    element *logits = logits_; /* (T, V) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        element *row = logits + t * V;
        float most = max[t], factor = scale / sums[2 * t];
        size_t target = target_column(targets[t], first, valid);
        float own = target < valid ? element_get(row[target]) : 0.0f;
#pragma omp simd
        for (size_t v = 0; v < valid; v++)
            row[v] = element_put(exp_fast(element_get(row[v]) - most) * factor);
        if (target < valid) row[target] = element_put(exp_fast(own - most) * factor - scale);
        memset(row + valid, 0, (V - valid) * sizeof *row);
    }
    return TRINE_OK;
}
