#include <string.h>

#include "device/ref/ref.h"

/* x (T, C), table (V, C) */
trine_status ref_embedding_forward(device *d, void *x, const void *table, const int32_t *tokens,
                                   int32_t first, size_t T, size_t C, size_t V) {
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        bool here = row >= 0 && row < (int64_t)V;
        for (size_t c = 0; c < C; c++)
            ref_store(d->compute, x, t * C + c,
                      here ? ref_load(d->compute, table, (size_t)row * C + c) : 0.0);
    }
    return TRINE_OK;
}

#define COLUMNS 64 /* of a row at a time, so that the tokens are searched once for all of them */

/* Columns [c, c + width) of row v: the previous values plus all rows of dx with token v. */
static void row_backward(device *d, void *dtable, const void *dx, const int32_t *tokens,
                         int64_t token, size_t at, size_t c, size_t width, size_t T, size_t C,
                         grad_mode mode) {
    float sums[COLUMNS];
    for (size_t j = 0; j < width; j++) sums[j] = (float)ref_old(d->grads, dtable, at + j, mode);
    for (size_t t = 0; t < T; t++)
        for (size_t j = 0; tokens[t] == token && j < width; j++)
            sums[j] += (float)ref_load(d->compute, dx, t * C + c + j);
    for (size_t j = 0; j < width; j++) ref_store(d->grads, dtable, at + j, (double)sums[j]);
}

/* dtable (V, C), dx (T, C) */
trine_status ref_embedding_backward(device *d, void *dtable, const void *dx, const int32_t *tokens,
                                    int32_t first, size_t T, size_t C, size_t V, grad_mode mode) {
    for (size_t v = 0; v < V; v++)
        for (size_t c = 0; c < C; c += COLUMNS)
            row_backward(d, dtable, dx, tokens, (int64_t)first + (int64_t)v, v * C + c, c,
                         C - c < COLUMNS ? C - c : COLUMNS, T, C, mode);
    return TRINE_OK;
}
