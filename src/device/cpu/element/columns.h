/* Sums over rows. Threads divide the columns, so the number of threads does not change the sums. A
 * thread takes COLUMNS columns (a few cache lines of a row) and sums ROWS rows before it adds to the
 * total, so that the rounding error grows with ROWS + T / ROWS and not with T. The total is kept in
 * floats and stored once. */
#ifndef TRINE_DEVICE_CPU_ELEMENT_COLUMNS_H
#define TRINE_DEVICE_CPU_ELEMENT_COLUMNS_H

#include <string.h>

#include "device/cpu/element/element.h"

#define COLUMNS 64
#define ROWS    64

/* The previous gradients, or zeros. */
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
