#include <math.h>
#include <string.h>

#include "device/cpu/element/columns.h"
#include "device/cpu/element/element.h"
#include "device/cpu/element/lanes.h"

#define EPS 1e-5f

static float sum_of_squared_differences(const element *x, float mean, size_t C) {
    lanes sums = {0}, in;
    size_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        element_lanes(&in, x + c);
        lanes diff = in - mean;
        sums += diff * diff;
    }
    for (size_t j = 0; c + j < C; j++) {
        float diff = element_get(x[c + j]) - mean;
        sums[j] += diff * diff;
    }
    return lanes_total(&sums);
}

trine_status CPU(norm_forward)(device *d, void *y_, float *stat, const void *gain_,
                               const void *bias_, const void *x_, size_t T, size_t C) {
    element *y = y_;                                     /* (T, C) */
    const element *gain = gain_, *bias = bias_, *x = x_; /* (C), (C), (T, C) */
#pragma omp parallel for if (T > 1) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        const element *in = x + t * C;
        element *out = y + t * C;
        float mean = lanes_sum_elements(in, C) / (float)C;
        float rstd = 1.0f / sqrtf(sum_of_squared_differences(in, mean, C) / (float)C + EPS);
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            out[c] = element_put((element_get(in[c]) - mean) * rstd * element_get(gain[c]) +
                                 element_get(bias[c]));
        stat[2 * t] = mean;
        stat[2 * t + 1] = rstd;
    }
    return TRINE_OK;
}

/* Sums over a row of g = dy * gain, and of g * xhat, xhat = (x - mean) * rstd. */
static void row_sums(float *g_sum, float *gx_sum, const element *dy, const element *gain,
                     const element *x, float mean, float rstd, size_t C) {
    lanes sums = {0}, products = {0}, slope, factor, in;
    size_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        element_lanes(&slope, dy + c);
        element_lanes(&factor, gain + c);
        element_lanes(&in, x + c);
        lanes g = slope * factor;
        sums += g;
        products += g * ((in - mean) * rstd);
    }
    for (size_t j = 0; c + j < C; j++) {
        float g = element_get(dy[c + j]) * element_get(gain[c + j]);
        sums[j] += g;
        products[j] += g * ((element_get(x[c + j]) - mean) * rstd);
    }
    *g_sum = lanes_total(&sums);
    *gx_sum = lanes_total(&products);
}

/* dx (+)= rstd * (g - mean(g) - xhat * mean(g * xhat)) */
static void row_backward(element *dx, const element *dy, const element *gain, const element *x,
                         float mean, float rstd, size_t C, grad_mode stream) {
    float g_sum, gx_sum;
    row_sums(&g_sum, &gx_sum, dy, gain, x, mean, rstd, C);
    float g_mean = g_sum / (float)C, gx_mean = gx_sum / (float)C;
    if (stream == GRAD_SET) memset(dx, 0, C * sizeof *dx);
#pragma omp simd
    for (size_t i = 0; i < C; i++) {
        float g = element_get(dy[i]) * element_get(gain[i]);
        float xhat = (element_get(x[i]) - mean) * rstd;
        dx[i] = element_put(element_get(dx[i]) + rstd * (g - g_mean - xhat * gx_mean));
    }
}

static void columns_backward(grad *dgain, grad *dbias, const element *dy, const element *x,
                             const float *stat, size_t T, size_t C, size_t width, grad_mode mode) {
    float gains[COLUMNS], biases[COLUMNS];
    columns_start(gains, dgain, width, mode);
    columns_start(biases, dbias, width, mode);
    for (size_t start = 0; start < T; start += ROWS) {
        size_t end = T - start < ROWS ? T : start + ROWS;
        float gain[COLUMNS] = {0}, bias[COLUMNS] = {0};
        for (size_t t = start; t < end; t++) {
            float mean = stat[2 * t], rstd = stat[2 * t + 1];
#pragma omp simd
            for (size_t c = 0; c < width; c++) {
                float slope = element_get(dy[t * C + c]);
                gain[c] += slope * ((element_get(x[t * C + c]) - mean) * rstd);
                bias[c] += slope;
            }
        }
        for (size_t c = 0; c < width; c++) gains[c] += gain[c], biases[c] += bias[c];
    }
    columns_end(dgain, gains, width);
    columns_end(dbias, biases, width);
}

trine_status CPU(norm_backward)(device *d, void *dx_, void *dgain_, void *dbias_, const void *dy_,
                                const void *gain_, const void *x_, const float *stat, size_t T,
                                size_t C, grad_mode stream, grad_mode mode) {
    grad *dgain = dgain_, *dbias = dbias_;           /* (C) */
    element *dx = dx_;                               /* (T, C) */
    const element *dy = dy_, *gain = gain_, *x = x_; /* (T, C), (C), (T, C) */
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
