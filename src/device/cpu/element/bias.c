#include "device/cpu/element/columns.h"

/* y = y + a */
static void add_one(element *y, const element *a, size_t N) {
#pragma omp simd
    for (size_t n = 0; n < N; n++) y[n] = element_put(element_get(y[n]) + element_get(a[n]));
}

/* y = (y + a) + b */
static void add_two(element *y, const element *a, const element *b, size_t N) {
#pragma omp simd
    for (size_t n = 0; n < N; n++)
        y[n] = element_put(element_get(y[n]) + element_get(a[n]) + element_get(b[n]));
}

trine_status CPU(bias_residual)(device *d, void *y_, const void *bias, const void *residual_,
                                size_t T, size_t N) {
    element *y = y_;                     /* (T, N) */
    const element *residual = residual_; /* (T, N) */
    if (!bias && !residual) return TRINE_OK;
#pragma omp parallel for if (T > 1) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        element *row = y + t * N;
        if (bias && residual)
            add_two(row, bias, residual + t * N, N);
        else
            add_one(row, bias ? bias : residual + t * N, N);
    }
    return TRINE_OK;
}

static void sum_columns(grad *dbias, const element *dy, size_t T, size_t N, size_t width,
                        grad_mode mode) {
    float totals[COLUMNS];
    columns_start(totals, dbias, width, mode);
    for (size_t start = 0; start < T; start += ROWS) {
        size_t end = T - start < ROWS ? T : start + ROWS;
        float sums[COLUMNS] = {0};
        for (size_t t = start; t < end; t++) columns_add(sums, dy + t * N, width);
        for (size_t c = 0; c < width; c++) totals[c] += sums[c];
    }
    columns_end(dbias, totals, width);
}

trine_status CPU(bias_backward)(device *d, void *dbias_, const void *dy_, size_t T, size_t N,
                                grad_mode mode) {
    grad *dbias = dbias_;
    const element *dy = dy_; /* (T, N) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t n = 0; n < N; n += COLUMNS)
        sum_columns(dbias + n, dy + n, T, N, N - n < COLUMNS ? N - n : COLUMNS, mode);
    return TRINE_OK;
}
