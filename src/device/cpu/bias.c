#include <string.h>

#include "device/cpu/columns.h"
#include "device/cpu/element.h"

static void add_row(float *y, const float *x, size_t N) {
#pragma omp simd
    for (size_t n = 0; n < N; n++) y[n] += x[n];
}

trine_status CPU(bias_residual)(device *d, void *y_, const void *bias, const void *residual_,
                                size_t T, size_t N) {
    float *y = y_;                     /* (T, N) */
    const float *residual = residual_; /* (T, N) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        if (bias) add_row(y + t * N, bias, N);
        if (residual) add_row(y + t * N, residual + t * N, N);
    }
    return TRINE_OK;
}

/* Columns of at most COLUMNS: partial sums over ROWS rows each, then onto the total. */
static void sum_columns(float *dbias, const float *dy, size_t T, size_t N, size_t width,
                        grad_mode mode) {
    if (mode == GRAD_SET) memset(dbias, 0, width * sizeof *dbias);
    for (size_t start = 0; start < T; start += ROWS) {
        size_t end = T - start < ROWS ? T : start + ROWS;
        float sums[COLUMNS] = {0};
        for (size_t t = start; t < end; t++) add_row(sums, dy + t * N, width);
        add_row(dbias, sums, width);
    }
}

trine_status CPU(bias_backward)(device *d, void *dbias_, const void *dy_, size_t T, size_t N,
                                grad_mode mode) {
    float *dbias = dbias_;
    const float *dy = dy_; /* (T, N) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t n = 0; n < N; n += COLUMNS)
        sum_columns(dbias + n, dy + n, T, N, N - n < COLUMNS ? N - n : COLUMNS, mode);
    return TRINE_OK;
}
