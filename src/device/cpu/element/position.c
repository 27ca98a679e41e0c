#include "device/cpu/element/columns.h"
#include "device/documents.h"

trine_status CPU(position_forward)(device *d, void *x_, const void *table_, const int32_t *starts,
                                   size_t first, size_t rows, size_t T, size_t C) {
    element *x = x_;               /* (rows, C) */
    const element *table = table_; /* (T, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        element *row = x + i * C;
        const element *add = table + document_position(starts, first + i, T) * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            row[c] = element_put(element_get(row[c]) + element_get(add[c]));
    }
    return TRINE_OK;
}

trine_status CPU(position_backward)(device *d, void *dtable_, const void *dx_,
                                    const int32_t *starts, size_t first, size_t rows, size_t T,
                                    size_t C, grad_mode mode) {
    grad *dtable = dtable_;  /* (T, C) */
    const element *dx = dx_; /* (rows, C) */
    const size_t end = first + rows;
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c += COLUMNS) {
            size_t width = C - c < COLUMNS ? C - c : COLUMNS;
            float sums[COLUMNS];
            columns_start(sums, dtable + t * C + c, width, mode);
            size_t i = document_next(starts, t, first, end, T);
            for (; i < end; i = starts ? document_next(starts, t, i + 1, end, T) : i + T)
                columns_add(sums, dx + (i - first) * C + c, width);
            columns_end(dtable + t * C + c, sums, width);
        }
    return TRINE_OK;
}
