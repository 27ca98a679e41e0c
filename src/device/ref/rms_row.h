/* One row of C elements: RMS norm and its gradient, for rms_norm.c and qk_norm.c. */
#ifndef TRINE_DEVICE_REF_RMS_ROW_H
#define TRINE_DEVICE_REF_RMS_ROW_H

#include <math.h>

#include "device/ref/ref.h"

/* The row starts at element `at` of y and x. Returns rstd. */
static inline float rms_row_forward(trine_dtype type, void *y, const void *gain, const void *x,
                                    double eps, size_t at, size_t C) {
    double square = 0.0;
    for (size_t c = 0; c < C; c++) square += ref_load(type, x, at + c) * ref_load(type, x, at + c);
    double rstd = 1.0 / sqrt(square / (double)C + eps);
    for (size_t c = 0; c < C; c++)
        ref_store(type, y, at + c, ref_load(type, x, at + c) * rstd * ref_load(type, gain, c));
    return (float)rstd;
}

/* The row starts at element `at` of dx, dy and x; dx may be dy. With xhat = x * rstd and g = dy * gain,
 * dx (+)= rstd * (g - xhat * mean(g * xhat)). */
static inline void rms_row_backward(trine_dtype type, void *dx, const void *dy, const void *gain,
                                    const void *x, double rstd, size_t at, size_t C,
                                    grad_mode stream) {
    double mean = 0.0;
    for (size_t c = 0; c < C; c++)
        mean += ref_load(type, dy, at + c) * ref_load(type, gain, c) * ref_load(type, x, at + c) *
                rstd / (double)C;
    for (size_t c = 0; c < C; c++) {
        double g = ref_load(type, dy, at + c) * ref_load(type, gain, c);
        double old = ref_old(type, dx, at + c, stream);
        ref_store(type, dx, at + c, old + rstd * (g - ref_load(type, x, at + c) * rstd * mean));
    }
}

/* dgain (D) (+)= dy * x * rstd, summed over the heads [begin, end) of all rows. dy, x (T, H + 2 K, D),
 * stat (T, H + K); H 1 and K 0: a row is one head. */
static inline void rms_gain_backward(device *d, void *dgain, const void *dy, const void *x,
                                     const float *stat, size_t T, size_t H, size_t K, size_t D,
                                     size_t begin, size_t end, grad_mode mode) {
    for (size_t i = 0; i < D; i++) {
        double sum = ref_old(d->grads, dgain, i, mode);
        for (size_t t = 0; t < T; t++)
            for (size_t h = begin; h < end; h++) {
                size_t at = (t * (H + 2 * K) + h) * D + i;
                sum += ref_load(d->compute, dy, at) * ref_load(d->compute, x, at) *
                       (double)stat[t * (H + K) + h];
            }
        ref_store(d->grads, dgain, i, sum);
    }
}

#endif
