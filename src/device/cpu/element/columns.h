/* Sums over rows are split among threads by columns, so that no thread count changes them: a
 * thread takes COLUMNS columns (a few cache lines of a row), and adds up ROWS rows before it adds
 * to the total, so that the rounding grows with ROWS + T / ROWS and not with T. The total is held
 * in floats and stored once. */
#ifndef TRINE_DEVICE_CPU_ELEMENT_COLUMNS_H
#define TRINE_DEVICE_CPU_ELEMENT_COLUMNS_H

#include <string.h>

#include "device/cpu/element/element.h"

#define COLUMNS 64
#define ROWS    64

/* What the gradients hold, or zeros. */
static inline void columns_start(float *totals, const grad *x, size_t width, grad_mode mode) {
    memset(totals, 0, COLUMNS * sizeof *totals);
    if (mode == GRAD_SET) return;
#pragma omp simd
    for (size_t c = 0; c < width; c++) totals[c] = grad_get(x[c]);
}

static inline void columns_add(float *totals, const element *x, size_t width) {
#pragma omp simd
    for (size_t c = 0; c < width; c++) totals[c] += element_get(x[c]);
}

static inline void columns_end(grad *x, const float *totals, size_t width) {
#pragma omp simd
    for (size_t c = 0; c < width; c++) x[c] = grad_put(totals[c]);
}

#endif
