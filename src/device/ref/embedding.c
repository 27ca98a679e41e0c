#include <string.h>

#include "device/ref/ref.h"

trine_status ref_embedding_forward(device *d, void *x_, const void *table_, const int32_t *tokens,
                                   int32_t first, size_t T, size_t C, size_t V) {
    (void)d;
    float *x = x_;               /* (T, C) */
    const float *table = table_; /* (V, C) */
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        for (size_t c = 0; c < C; c++)
            x[t * C + c] = row >= 0 && row < (int64_t)V ? table[(size_t)row * C + c] : 0.0f;
    }
    return TRINE_OK;
}

trine_status ref_embedding_backward(device *d, void *dtable_, const void *dx_,
                                    const int32_t *tokens, int32_t first, size_t T, size_t C,
                                    size_t V, grad_mode mode) {
    float *dtable = dtable_;
    (void)d;
    const float *dx = dx_; /* (T, C) */
    if (mode == GRAD_SET) memset(dtable, 0, V * C * sizeof *dtable);
    for (size_t t = 0; t < T; t++) {
        int64_t row = (int64_t)tokens[t] - first;
        if (row < 0 || row >= (int64_t)V) continue;
        for (size_t c = 0; c < C; c++) dtable[(size_t)row * C + c] += dx[t * C + c];
    }
    return TRINE_OK;
}
