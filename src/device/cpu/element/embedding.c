#include "device/cpu/element/columns.h"

trine_status CPU(embedding_forward)(device *d, void *x_, const void *table_, const int32_t *tokens,
                                    int32_t first, size_t T, size_t C, size_t V) {
    element *x = x_;               /* (T, C) */
    const element *table = table_; /* (V, C) */
    if (C == 0) return TRINE_OK;
#pragma omp parallel for if (T > 1) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        if (row >= 0 && row < (int64_t)V)
            memcpy(x + t * C, table + (size_t)row * C, C * sizeof *x);
        else
            memset(x + t * C, 0, C * sizeof *x);
    }
    return TRINE_OK;
}

/* For fp32 gradients: adds each row of dx to the row of its token, one after the other. */
static void add_rows(grad *dtable, const element *dx, const int32_t *tokens, int32_t first,
                     size_t T, size_t C, size_t V, size_t width) {
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        if (row < 0 || row >= (int64_t)V) continue;
        grad *out = dtable + (size_t)row * C;
#pragma omp simd
        for (size_t c = 0; c < width; c++)
            out[c] = grad_put(grad_get(out[c]) + element_get(dx[t * C + c]));
    }
}

#define SPAN 256 /* tokens that are searched at a time */

static bool holds(const int32_t *tokens, size_t n, int32_t token) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (size_t i = 0; i < n; i++) found |= tokens[i] == token;
    return found;
}

/* Adds all rows of dx from row t on that have the token of row t. */
static void sum_token(float *sums, const element *dx, const int32_t *tokens, size_t t, size_t T,
                      size_t C, size_t width) {
    for (size_t start = t; start < T; start += SPAN) {
        size_t n = T - start < SPAN ? T - start : SPAN;
        if (!holds(tokens + start, n, tokens[t])) continue;
        for (size_t i = start; i < start + n; i++)
            if (tokens[i] == tokens[t]) columns_add(sums, dx + i * C, width);
    }
}

/* For 16-bit gradients: the same sums in the same order, in floats until they are complete. */
static void add_sums(grad *dtable, const element *dx, const int32_t *tokens, int32_t first,
                     size_t T, size_t C, size_t V, size_t width) {
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        if (row < 0 || row >= (int64_t)V || holds(tokens, t, tokens[t])) continue;
        float sums[COLUMNS];
        columns_start(sums, dtable + (size_t)row * C, width, GRAD_ADD);
        sum_token(sums, dx, tokens, t, T, C, width);
        columns_end(dtable + (size_t)row * C, sums, width);
    }
}

/* Threads divide the columns, because two tokens may have the same row. */
trine_status CPU(embedding_backward)(device *d, void *dtable_, const void *dx_,
                                     const int32_t *tokens, int32_t first, size_t T, size_t C,
                                     size_t V, grad_mode mode) {
    grad *dtable = dtable_;
    const element *dx = dx_; /* (T, C) */
    size_t cleared = mode == GRAD_SET ? V : 0;
#pragma omp parallel num_threads(d->threads)
    {
#pragma omp for schedule(static)
        for (size_t v = 0; v < cleared; v++) memset(dtable + v * C, 0, C * sizeof *dtable);
#pragma omp for schedule(static)
        for (size_t c = 0; c < C; c += COLUMNS) {
            size_t width = C - c < COLUMNS ? C - c : COLUMNS;
            if (sizeof(grad) == sizeof(float))
                add_rows(dtable + c, dx + c, tokens, first, T, C, V, width);
            else
                add_sums(dtable + c, dx + c, tokens, first, T, C, V, width);
        }
    }
    return TRINE_OK;
}
