#include <string.h>

#include "device/cpu/element.h"

trine_status CPU(position_forward)(device *d, void *x_, const void *table_, size_t first,
                                   size_t rows, size_t T, size_t C) {
    float *x = x_;               /* (rows, C) */
    const float *table = table_; /* (T, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        const float *add = table + (first + i) % T * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) x[i * C + c] += add[c];
    }
    return TRINE_OK;
}

/* The first row of dx with position t; `rows` or more if there is none. */
static size_t first_with(size_t t, size_t first, size_t T) {
    return (t + T - first % T) % T;
}

trine_status CPU(position_backward)(device *d, void *dtable_, const void *dx_, size_t first,
                                    size_t rows, size_t T, size_t C, grad_mode mode) {
    float *dtable = dtable_; /* (T, C) */
    const float *dx = dx_;   /* (rows, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        float *sum = dtable + t * C;
        if (mode == GRAD_SET) memset(sum, 0, C * sizeof *sum);
        for (size_t i = first_with(t, first, T); i < rows; i += T)
#pragma omp simd
            for (size_t c = 0; c < C; c++) sum[c] += dx[i * C + c];
    }
    return TRINE_OK;
}
