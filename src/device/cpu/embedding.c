#include <string.h>

#include "device/cpu/columns.h"
#include "device/cpu/element.h"

trine_status CPU(embedding_forward)(device *d, void *x_, const void *table_, const int32_t *tokens,
                                    int32_t first, size_t T, size_t C, size_t V) {
    float *x = x_;               /* (T, C) */
    const float *table = table_; /* (V, C) */
    if (C == 0) return TRINE_OK;
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        if (row >= 0 && row < (int64_t)V)
            memcpy(x + t * C, table + (size_t)row * C, C * sizeof(float));
        else
            memset(x + t * C, 0, C * sizeof(float));
    }
    return TRINE_OK;
}

static void columns_backward(float *dtable, const float *dx, const int32_t *tokens, int32_t first,
                             size_t T, size_t C, size_t V, size_t width) {
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        if (row < 0 || row >= (int64_t)V) continue;
        float *out = dtable + (size_t)row * C;
#pragma omp simd
        for (size_t c = 0; c < width; c++) out[c] += dx[t * C + c];
    }
}

/* Threads take columns: two tokens may be the same row. */
trine_status CPU(embedding_backward)(device *d, void *dtable_, const void *dx_,
                                     const int32_t *tokens, int32_t first, size_t T, size_t C,
                                     size_t V, grad_mode mode) {
    float *dtable = dtable_;
    const float *dx = dx_; /* (T, C) */
    size_t cleared = mode == GRAD_SET ? V : 0;
#pragma omp parallel num_threads(d->threads)
    {
#pragma omp for schedule(static)
        for (size_t v = 0; v < cleared; v++) memset(dtable + v * C, 0, C * sizeof *dtable);
#pragma omp for schedule(static)
        for (size_t c = 0; c < C; c += COLUMNS)
            columns_backward(dtable + c, dx + c, tokens, first, T, C, V,
                             C - c < COLUMNS ? C - c : COLUMNS);
    }
    return TRINE_OK;
}
