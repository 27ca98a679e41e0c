#include <math.h>
#include <string.h>

#include "device/cpu/element/element.h"
#include "device/cpu/exp.h"
#include "device/cpu/element/lanes.h"

/* The target's column among the valid columns of the shard; `valid` if it is not among them. */
static size_t target_column(int32_t target, int32_t first, size_t valid) {
    int64_t column = (int64_t)target - first;
    return column >= 0 && column < (int64_t)valid ? (size_t)column : valid;
}

/* A row is processed in chunks ("blocks") that fit into the L1 cache: the maximum of a chunk, then the sum of its
 * exponentials relative to the maximum so far. */
#define BLOCK 1024

/* The n logits of a chunk as floats: in place, or converted in `room` (BLOCK). */
static const float *floats_of(float *room, const element *block, size_t n) {
    if (sizeof *block == sizeof *room) return (const void *)block;
#pragma omp simd
    for (size_t i = 0; i < n; i++) room[i] = element_get(block[i]);
    return room;
}

static float sum_below(float max, const float *x, size_t n) {
    lanes sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        float next[LANES];
#pragma omp simd
        for (size_t j = 0; j < LANES; j++) next[j] = exp_below(x[i + j] - max);
        sums += *lanes_load(next);
    }
    for (size_t j = 0; i + j < n; j++) sums[j] += exp_below(x[i + j] - max);
    return lanes_total(&sums);
}

/* The maximum ignores NaNs, the sum does not. */
static void pass_row(float *max, float *sum, const element *row, size_t valid) {
    float room[BLOCK], most = -INFINITY;
    double total = 0.0;
    for (size_t start = 0; start < valid; start += BLOCK) {
        size_t n = valid - start < BLOCK ? valid - start : BLOCK;
        const float *x = floats_of(room, row + start, n);
        float before = most, next = lanes_max(x, n);
        if (next > most) most = next;
        float base = most == -INFINITY ? 0.0f : most; /* -inf minus -inf would be NaN */
        if (most > before) total *= exp((double)before - (double)base);
        total += (double)sum_below(base, x, n);
    }
    *max = isnan(total) && most < INFINITY ? NAN : most;
    *sum = (float)total;
}

trine_status CPU(xent_forward)(device *d, float *max, float *sums, const void *logits_,
                               const int32_t *targets, int32_t first, size_t T, size_t V,
                               size_t valid) {
    const element *logits = logits_; /* (T, V) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        if (targets[t] == OPS_NO_TARGET) {
            max[t] = 0.0f, sums[2 * t] = 1.0f, sums[2 * t + 1] = 0.0f;
            continue;
        }
        size_t target = target_column(targets[t], first, valid);
        pass_row(&max[t], &sums[2 * t], logits + t * V, valid);
        sums[2 * t + 1] = target < valid ? element_get(logits[t * V + target]) : 0.0f;
    }
    return TRINE_OK;
}

/* A NaN wins. */
trine_status CPU(xent_max)(device *d, float *max, const float *own, size_t parts, size_t T) {
    (void)d;
    for (size_t t = 0; t < T; t++) {
        float most = own[t];
        for (size_t p = 1; p < parts; p++) {
            float next = own[p * T + t];
            if (next > most || next != next) most = next;
        }
        max[t] = most;
    }
    return TRINE_OK;
}

/* T exponentials here, and T logarithms below that are added in order: too little work for threads. */
trine_status CPU(xent_rescale)(device *d, float *sums, const float *own, const float *max,
                               size_t T) {
    (void)d;
    for (size_t t = 0; t < T; t++) sums[2 * t] *= exp_fast(own[t] - max[t]);
    return TRINE_OK;
}

trine_status CPU(xent_loss)(device *d, double *loss, const float *max, const float *sums,
                            const int32_t *targets, double scale, size_t T) {
    (void)d;
    double sum = 0.0;
    for (size_t t = 0; t < T; t++)
        if (targets[t] != OPS_NO_TARGET)
            sum += log((double)sums[2 * t]) + ((double)max[t] - (double)sums[2 * t + 1]);
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
        if (targets[t] == OPS_NO_TARGET) {
            memset(row, 0, V * sizeof *row);
            continue;
        }
        float most = max[t], factor = scale / sums[2 * t];
        size_t target = target_column(targets[t], first, valid);
        float own = target < valid ? element_get(row[target]) : 0.0f;
#pragma omp simd
        for (size_t v = 0; v < valid; v++)
            row[v] = element_put(exp_below(element_get(row[v]) - most) * factor);
        if (target < valid) row[target] = element_put(exp_below(own - most) * factor - scale);
        memset(row + valid, 0, (V - valid) * sizeof *row);
    }
    return TRINE_OK;
}
