#include "device/cpu/element/columns.h"

trine_status CPU(position_forward)(device *d, void *x_, const void *table_, size_t first,
                                   size_t rows, size_t T, size_t C) {
    element *x = x_;               /* (rows, C) */
    const element *table = table_; /* (T, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        element *row = x + i * C;
        const element *add = table + (first + i) % T * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            row[c] = element_put(element_get(row[c]) + element_get(add[c]));
    }
    return TRINE_OK;
}

/* The first row of dx with position t; `rows` or more if there is none. */
static size_t first_with(size_t t, size_t first, size_t T) {
    return (t + T - first % T) % T;
}

trine_status CPU(position_backward)(device *d, void *dtable_, const void *dx_, size_t first,
                                    size_t rows, size_t T, size_t C, grad_mode mode) {
    grad *dtable = dtable_;  /* (T, C) */
    const element *dx = dx_; /* (rows, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c += COLUMNS) {
            size_t width = C - c < COLUMNS ? C - c : COLUMNS;
            float sums[COLUMNS];
            columns_start(sums, dtable + t * C + c, width, mode);
            for (size_t i = first_with(t, first, T); i < rows; i += T)
                columns_add(sums, dx + i * C + c, width);
            columns_end(dtable + t * C + c, sums, width);
        }
    return TRINE_OK;
}
