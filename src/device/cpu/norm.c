#include <math.h>
#include <string.h>

#include "device/cpu/columns.h"
#include "device/cpu/element.h"
#include "device/cpu/lanes.h"

#define EPS 1e-5f

static float sum_of_squared_differences(const float *x, float mean, size_t C) {
    lanes sums = {0};
    size_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        lanes diff = *lanes_load(x + c) - mean;
        sums += diff * diff;
    }
    for (size_t j = 0; c + j < C; j++) sums[j] += (x[c + j] - mean) * (x[c + j] - mean);
    return lanes_total(&sums);
}

trine_status CPU(norm_forward)(device *d, void *y_, float *stat, const void *gain_,
                               const void *bias_, const void *x_, size_t T, size_t C) {
    float *y = y_;                                     /* (T, C) */
    const float *gain = gain_, *bias = bias_, *x = x_; /* (C), (C), (T, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        const float *in = x + t * C;
        float *out = y + t * C;
        float mean = lanes_sum(in, C) / (float)C;
        float rstd = 1.0f / sqrtf(sum_of_squared_differences(in, mean, C) / (float)C + EPS);
#pragma omp simd
        for (size_t c = 0; c < C; c++) out[c] = (in[c] - mean) * rstd * gain[c] + bias[c];
        stat[2 * t] = mean;
        stat[2 * t + 1] = rstd;
    }
    return TRINE_OK;
}

/* dx (+)= rstd * (g - mean(g) - xhat * mean(g * xhat)), g = dy * gain, xhat = (x - mean) * rstd. */
static void row_backward(float *dx, const float *dy, const float *gain, const float *x, float mean,
                         float rstd, size_t C, grad_mode stream) {
    lanes sums = {0}, products = {0};
    size_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        lanes g = *lanes_load(dy + c) * *lanes_load(gain + c);
        sums += g;
        products += g * ((*lanes_load(x + c) - mean) * rstd);
    }
    for (size_t j = 0; c + j < C; j++) {
        float g = dy[c + j] * gain[c + j];
        sums[j] += g;
        products[j] += g * ((x[c + j] - mean) * rstd);
    }
    float g_mean = lanes_total(&sums) / (float)C, gx_mean = lanes_total(&products) / (float)C;
    if (stream == GRAD_SET) memset(dx, 0, C * sizeof *dx);
#pragma omp simd
    for (size_t i = 0; i < C; i++)
        dx[i] += rstd * (dy[i] * gain[i] - g_mean - (x[i] - mean) * rstd * gx_mean);
}

static void columns_backward(float *dgain, float *dbias, const float *dy, const float *x,
                             const float *stat, size_t T, size_t C, size_t width, grad_mode mode) {
    if (mode == GRAD_SET) {
        memset(dgain, 0, width * sizeof *dgain);
        memset(dbias, 0, width * sizeof *dbias);
    }
    for (size_t start = 0; start < T; start += ROWS) {
        size_t end = T - start < ROWS ? T : start + ROWS;
        float gain[COLUMNS] = {0}, bias[COLUMNS] = {0};
        for (size_t t = start; t < end; t++) {
            float mean = stat[2 * t], rstd = stat[2 * t + 1];
#pragma omp simd
            for (size_t c = 0; c < width; c++) {
                gain[c] += dy[t * C + c] * ((x[t * C + c] - mean) * rstd);
                bias[c] += dy[t * C + c];
            }
        }
        for (size_t c = 0; c < width; c++) dgain[c] += gain[c], dbias[c] += bias[c];
    }
}

trine_status CPU(norm_backward)(device *d, void *dx_, void *dgain_, void *dbias_, const void *dy_,
                                const void *gain_, const void *x_, const float *stat, size_t T,
                                size_t C, grad_mode stream, grad_mode mode) {
    float *dgain = dgain_;
    float *dbias = dbias_;
    float *dx = dx_;                               /* (T, C) */
    const float *dy = dy_, *gain = gain_, *x = x_; /* (T, C), (C), (T, C) */
#pragma omp parallel num_threads(d->threads)
    {
#pragma omp for schedule(static) nowait
        for (size_t t = 0; t < T; t++)
            row_backward(dx + t * C, dy + t * C, gain, x + t * C, stat[2 * t], stat[2 * t + 1], C,
                         stream);
#pragma omp for schedule(static)
        for (size_t c = 0; c < C; c += COLUMNS)
            columns_backward(dgain + c, dbias + c, dy + c, x + c, stat, T, C,
                             C - c < COLUMNS ? C - c : COLUMNS, mode);
    }
    return TRINE_OK;
}
