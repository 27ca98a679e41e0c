#include <math.h>

#include "device/ref/ref.h"

/* The target's column among the valid columns of the shard; `valid` if it is not among them. */
static size_t target_column(int32_t target, int32_t first, size_t valid) {
    int64_t column = (int64_t)target - first;
    return column >= 0 && column < (int64_t)valid ? (size_t)column : valid;
}

static double row_max(trine_dtype type, const void *logits, size_t start, size_t valid) {
    double max = -INFINITY;
    for (size_t v = 0; v < valid; v++) {
        double logit = ref_load(type, logits, start + v);
        /* A NaN is taken and then kept, because nothing compares greater. */
        if (logit > max || isnan(logit)) max = logit;
    }
    return max;
}

static double row_sum(trine_dtype type, const void *logits, size_t start, size_t valid,
                      double max) {
    double sum = 0.0;
    if (max == -INFINITY) return sum;
    for (size_t v = 0; v < valid; v++) sum += exp(ref_load(type, logits, start + v) - max);
    return sum;
}

/* logits (T, V) */
trine_status ref_xent_forward(device *d, float *max, float *sums, const void *logits,
                              const int32_t *targets, int32_t first, size_t T, size_t V,
                              size_t valid) {
    const trine_dtype type = d->compute;
    for (size_t t = 0; t < T; t++) {
        size_t target = target_column(targets[t], first, valid);
        if (targets[t] == OPS_NO_TARGET) {
            max[t] = 0.0f, sums[2 * t] = 1.0f, sums[2 * t + 1] = 0.0f;
            continue;
        }
        double most = row_max(type, logits, t * V, valid);
        max[t] = (float)most;
        sums[2 * t] = (float)row_sum(type, logits, t * V, valid, most);
        sums[2 * t + 1] = target < valid ? (float)ref_load(type, logits, t * V + target) : 0.0f;
    }
    return TRINE_OK;
}

/* A NaN wins. */
trine_status ref_xent_max(device *d, float *max, const float *own, size_t parts, size_t T) {
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

trine_status ref_xent_rescale(device *d, float *sums, const float *own, const float *max,
                              size_t T) {
    (void)d;
    for (size_t t = 0; t < T; t++)
        sums[2 * t] = (float)((double)sums[2 * t] * exp((double)own[t] - (double)max[t]));
    return TRINE_OK;
}

trine_status ref_xent_loss(device *d, double *loss, const float *max, const float *sums,
                           const int32_t *targets, double scale, size_t T) {
    (void)d;
    double sum = 0.0;
    for (size_t t = 0; t < T; t++)
        if (targets[t] != OPS_NO_TARGET)
            sum += log((double)sums[2 * t]) + ((double)max[t] - (double)sums[2 * t + 1]);
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
            double gradient = (p - (v == target ? 1.0 : 0.0)) * (double)scale;
            ref_store(type, logits, t * V + v, targets[t] == OPS_NO_TARGET ? 0.0 : gradient);
        }
        for (size_t v = valid; v < V; v++) ref_store(type, logits, t * V + v, 0.0);
    }
    return TRINE_OK;
}
