/* One row of C elements: RMS norm and its gradient, for rms_norm.c and qk_norm.c.
 *
 * Gradients of gains are sums over rows, in one pass over the memory: threads take groups of consecutive
 * rows, sum each group in floats of their own, and add these sums to the totals in the order of the
 * groups (`omp ordered`). Which rows form a group depends on their number only, so the number of threads
 * changes no bit. At most 64 groups up to 4096 rows, so that a sum has some 64 + T / 64 roundings; at least 8
 * rows, so that the ordered additions are a few percent of a group's work. */
#ifndef TRINE_DEVICE_CPU_ELEMENT_RMS_ROW_H
#define TRINE_DEVICE_CPU_ELEMENT_RMS_ROW_H

#include <math.h>

#include "device/cpu/element/element.h"
#include "device/cpu/element/lanes.h"

/* Most columns of sums, which are on the stacks: 128 KiB. */
#define RMS_WIDEST 32768

/* Rows of a group. */
static inline size_t rms_group(size_t T) {
    size_t rows = (T + 63) / 64;
    return rows < 8 ? 8 : rows > 64 ? 64 : rows;
}

/* The previous gradients, or zeros. */
static inline void rms_start(float *totals, const grad *dgain, size_t C, grad_mode mode) {
#pragma omp simd
    for (size_t c = 0; c < C; c++) totals[c] = mode == GRAD_ADD ? grad_get(dgain[c]) : 0.0f;
}

static inline void rms_add(float *totals, const float *sums, size_t C) {
#pragma omp simd
    for (size_t c = 0; c < C; c++) totals[c] += sums[c];
}

static inline void rms_end(grad *dgain, const float *totals, size_t C) {
#pragma omp simd
    for (size_t c = 0; c < C; c++) dgain[c] = grad_put(totals[c]);
}

/* y = x * rstd * gain; returns rstd. */
static inline float rms_row_forward(element *y, const element *gain, const element *x, float eps,
                                    size_t C) {
    lanes squares = {0}, in;
    size_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        element_lanes(&in, x + c);
        squares += in * in;
    }
    for (size_t j = 0; c + j < C; j++) squares[j] += element_get(x[c + j]) * element_get(x[c + j]);
    float rstd = 1.0f / sqrtf(lanes_total(&squares) / (float)C + eps);
    for (c = 0; c + LANES <= C; c += LANES) {
        lanes factor;
        element_lanes(&in, x + c);
        element_lanes(&factor, gain + c);
        const lanes out = in * rstd * factor;
        element_store_lanes(y + c, &out);
    }
    for (; c < C; c++) y[c] = element_put(element_get(x[c]) * rstd * element_get(gain[c]));
    return rstd;
}

/* The sum over the row of g * xhat, with xhat = x * rstd and g = dy * gain;  sums += dy * xhat. */
static inline float rms_row_sums(float *sums, const element *dy, const element *gain,
                                 const element *x, float rstd, size_t C) {
    lanes products = {0}, slope, factor, in;
    size_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        element_lanes(&slope, dy + c);
        element_lanes(&factor, gain + c);
        element_lanes(&in, x + c);
        lanes part = slope * (in * rstd);
        *(lanes_at *)(sums + c) += part;
        products += part * factor;
    }
    for (size_t j = 0; c + j < C; j++) {
        float part = element_get(dy[c + j]) * (element_get(x[c + j]) * rstd);
        sums[c + j] += part;
        products[j] += part * element_get(gain[c + j]);
    }
    return lanes_total(&products);
}

/* dx (+)= rstd * (g - xhat * mean(g * xhat));  sums += dy * xhat. dx may be dy. */
static inline void rms_row_backward(element *dx, float *sums, const element *dy,
                                    const element *gain, const element *x, float rstd, size_t C,
                                    grad_mode stream) {
    float mean = rms_row_sums(sums, dy, gain, x, rstd, C) / (float)C;
    size_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        lanes slope, factor, in, old = {0};
        element_lanes(&slope, dy + c);
        element_lanes(&factor, gain + c);
        element_lanes(&in, x + c);
        if (stream == GRAD_ADD) element_lanes(&old, dx + c);
        const lanes out = old + rstd * (slope * factor - in * rstd * mean);
        element_store_lanes(dx + c, &out);
    }
    for (; c < C; c++) {
        float g = element_get(dy[c]) * element_get(gain[c]);
        float old = stream == GRAD_ADD ? element_get(dx[c]) : 0.0f;
        dx[c] = element_put(old + rstd * (g - element_get(x[c]) * rstd * mean));
    }
}

#endif
