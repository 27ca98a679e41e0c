#include <math.h>
#include <string.h>

#include "device/ref/ref.h"

#define EPS 1e-5

trine_status ref_norm_forward(device *d, void *y_, float *stat, const void *gain_,
                              const void *bias_, const void *x_, size_t T, size_t C) {
    (void)d;
    float *y = y_;                                     /* (T, C) */
    const float *gain = gain_, *bias = bias_, *x = x_; /* (C), (C), (T, C) */
    for (size_t t = 0; t < T; t++, x += C, y += C) {
        double mean = 0.0, variance = 0.0;
        for (size_t c = 0; c < C; c++) mean += (double)x[c];
        mean /= (double)C;
        for (size_t c = 0; c < C; c++) variance += ((double)x[c] - mean) * ((double)x[c] - mean);
        double rstd = 1.0 / sqrt(variance / (double)C + EPS);
        for (size_t c = 0; c < C; c++)
            y[c] = (float)(((double)x[c] - mean) * rstd * (double)gain[c] + (double)bias[c]);
        stat[2 * t] = (float)mean;
        stat[2 * t + 1] = (float)rstd;
    }
    return TRINE_OK;
}

/* dx of one row: with xhat = (x - mean) * rstd and g = dy * gain,
 * dx += rstd * (g - mean(g) - xhat * mean(g * xhat)). */
static void row_backward(float *dx, const float *dy, const float *gain, const float *x, double mean,
                         double rstd, size_t C) {
    double g_mean = 0.0, gx_mean = 0.0;
    for (size_t c = 0; c < C; c++) {
        double g = (double)dy[c] * (double)gain[c];
        g_mean += g / (double)C;
        gx_mean += g * ((double)x[c] - mean) * rstd / (double)C;
    }
    for (size_t c = 0; c < C; c++) {
        double g = (double)dy[c] * (double)gain[c];
        double xhat = ((double)x[c] - mean) * rstd;
        dx[c] = (float)((double)dx[c] + rstd * (g - g_mean - xhat * gx_mean));
    }
}

trine_status ref_norm_backward(device *d, void *dx_, void *dgain_, void *dbias_, const void *dy_,
                               const void *gain_, const void *x_, const float *stat, size_t T,
                               size_t C, grad_mode stream, grad_mode mode) {
    float *dgain = dgain_;
    float *dbias = dbias_;
    float *dx = dx_;                               /* (T, C) */
    const float *dy = dy_, *gain = gain_, *x = x_; /* (T, C), (C), (T, C) */
    if (stream == GRAD_SET) memset(dx, 0, T * C * sizeof *dx);
    for (size_t t = 0; t < T; t++)
        row_backward(dx + t * C, dy + t * C, gain, x + t * C, (double)stat[2 * t],
                     (double)stat[2 * t + 1], C);
    for (size_t c = 0; c < C; c++) {
        double sum = mode == GRAD_ADD ? (double)dgain[c] : 0.0;
        for (size_t t = 0; t < T; t++)
            sum += (double)dy[t * C + c] * ((double)x[t * C + c] - (double)stat[2 * t]) *
                   (double)stat[2 * t + 1];
        dgain[c] = (float)sum;
    }
    return ref_bias_backward(d, dbias, dy, T, C, mode);
}
