#include <string.h>

#include "device/ref/ref.h"

trine_status ref_position_forward(device *d, void *x_, const void *table_, size_t B, size_t T,
                                  size_t C) {
    (void)d;
    float *x = x_;               /* (B, T, C) */
    const float *table = table_; /* (T, C) */
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < T * C; i++) x[b * T * C + i] += table[i];
    return TRINE_OK;
}

trine_status ref_position_backward(device *d, float *dtable, const void *dx_, size_t B, size_t T,
                                   size_t C, grad_mode mode) {
    (void)d;
    const float *dx = dx_; /* (B, T, C) */
    if (mode == GRAD_SET) memset(dtable, 0, T * C * sizeof *dtable);
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < T * C; i++) dtable[i] += dx[b * T * C + i];
    return TRINE_OK;
}
