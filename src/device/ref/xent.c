#include <math.h>

#include "device/ref/ref.h"

/* The target's column among the shard's valid ones; `valid` itself if it lies elsewhere. */
static size_t target_column(int32_t target, int32_t first, size_t valid) {
    int64_t column = (int64_t)target - first;
    return column >= 0 && column < (int64_t)valid ? (size_t)column : valid;
}

/* logits (T, V) */
trine_status ref_xent_max(device *d, float *max, const void *logits, size_t T, size_t V,
                          size_t valid) {
    for (size_t t = 0; t < T; t++) {
        max[t] = -INFINITY;
        for (size_t v = 0; v < valid; v++) {
            float logit = (float)ref_load(d->compute, logits, t * V + v);
            /* A NaN is taken, and then kept: nothing compares greater. */
            if (logit > max[t] || isnan(logit)) max[t] = logit;
        }
    }
    return TRINE_OK;
}

trine_status ref_xent_sums(device *d, float *sums, const void *logits, const float *max,
                           const int32_t *targets, int32_t first, size_t T, size_t V,
                           size_t valid) {
    const trine_dtype type = d->compute;
    for (size_t t = 0; t < T; t++) {
        size_t target = target_column(targets[t], first, valid);
        double sum = 0.0;
        for (size_t v = 0; v < valid; v++)
            sum += exp(ref_load(type, logits, t * V + v) - (double)max[t]);
        sums[2 * t] = (float)sum;
        sums[2 * t + 1] =
            target < valid ? (float)ref_load(type, logits, t * V + target) - max[t] : 0.0f;
    }
    return TRINE_OK;
}

trine_status ref_xent_loss(device *d, double *loss, const float *sums, double scale, size_t T) {
    (void)d;
    double sum = 0.0;
    for (size_t t = 0; t < T; t++) sum += log((double)sums[2 * t]) - (double)sums[2 * t + 1];
    *loss += scale * sum;
    return TRINE_OK;
}

trine_status ref_xent_backward(device *d, void *logits, const float *max, const float *sums,
                               const int32_t *targets, int32_t first, float scale, size_t T,
                               size_t V, size_t valid) {
    const trine_dtype type = d->compute;
    for (size_t t = 0; t < T; t++) {
        size_t target = target_column(targets[t], first, valid);
        for (size_t v = 0; v < valid; v++) {
            double logit = ref_load(type, logits, t * V + v);
            double p = exp(logit - (double)max[t]) / (double)sums[2 * t];
            ref_store(type, logits, t * V + v, (p - (v == target ? 1.0 : 0.0)) * (double)scale);
        }
        for (size_t v = valid; v < V; v++) ref_store(type, logits, t * V + v, 0.0);
    }
    return TRINE_OK;
}
