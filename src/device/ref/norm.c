#include <math.h>

#include "device/ref/ref.h"

#define EPS 1e-5

/* Row t of y and x (T, C); gain, bias (C). */
static void row_forward(trine_dtype type, void *y, float *stat, const void *gain, const void *bias,
                        const void *x, size_t t, size_t C) {
    double mean = 0.0, variance = 0.0;
    for (size_t c = 0; c < C; c++) mean += ref_load(type, x, t * C + c);
    mean /= (double)C;
    for (size_t c = 0; c < C; c++) {
        double from_mean = ref_load(type, x, t * C + c) - mean;
        variance += from_mean * from_mean;
    }
    double rstd = 1.0 / sqrt(variance / (double)C + EPS);
    for (size_t c = 0; c < C; c++)
        ref_store(type, y, t * C + c,
                  (ref_load(type, x, t * C + c) - mean) * rstd * ref_load(type, gain, c) +
                      ref_load(type, bias, c));
    stat[2 * t] = (float)mean;
    stat[2 * t + 1] = (float)rstd;
}

trine_status ref_norm_forward(device *d, void *y, float *stat, const void *gain, const void *bias,
                              const void *x, size_t T, size_t C) {
    for (size_t t = 0; t < T; t++) row_forward(d->compute, y, stat, gain, bias, x, t, C);
    return TRINE_OK;
}

/* dx of row t: with xhat = (x - mean) * rstd and g = dy * gain,
 * dx (+)= rstd * (g - mean(g) - xhat * mean(g * xhat)). */
static void row_backward(trine_dtype type, void *dx, const void *dy, const void *gain,
                         const void *x, const float *stat, size_t t, size_t C, grad_mode stream) {
    double g_mean = 0.0, gx_mean = 0.0, mean = (double)stat[2 * t], rstd = (double)stat[2 * t + 1];
    for (size_t c = 0; c < C; c++) {
        double g = ref_load(type, dy, t * C + c) * ref_load(type, gain, c);
        g_mean += g / (double)C;
        gx_mean += g * (ref_load(type, x, t * C + c) - mean) * rstd / (double)C;
    }
    for (size_t c = 0; c < C; c++) {
        double g = ref_load(type, dy, t * C + c) * ref_load(type, gain, c);
        double xhat = (ref_load(type, x, t * C + c) - mean) * rstd;
        double old = ref_old(type, dx, t * C + c, stream);
        ref_store(type, dx, t * C + c, old + rstd * (g - g_mean - xhat * gx_mean));
    }
}

/* dx, dy, x (T, C); dgain, dbias, gain (C) */
trine_status ref_norm_backward(device *d, void *dx, void *dgain, void *dbias, const void *dy,
                               const void *gain, const void *x, const float *stat, size_t T,
                               size_t C, grad_mode stream, grad_mode mode) {
    for (size_t t = 0; t < T; t++) row_backward(d->compute, dx, dy, gain, x, stat, t, C, stream);
    for (size_t c = 0; c < C; c++) {
        double sum = ref_old(d->grads, dgain, c, mode);
        for (size_t t = 0; t < T; t++)
            sum += ref_load(d->compute, dy, t * C + c) *
                   (ref_load(d->compute, x, t * C + c) - (double)stat[2 * t]) *
                   (double)stat[2 * t + 1];
        ref_store(d->grads, dgain, c, sum);
    }
    return ref_bias_backward(d, dbias, dy, T, C, mode);
}
