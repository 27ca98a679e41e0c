#include <string.h>

#include "device/ref/ref.h"

trine_status ref_position_forward(device *d, void *x_, const void *table_, size_t first,
                                  size_t rows, size_t T, size_t C) {
    (void)d;
    float *x = x_;               /* (rows, C) */
    const float *table = table_; /* (T, C) */
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < C; c++) x[i * C + c] += table[(first + i) % T * C + c];
    return TRINE_OK;
}

trine_status ref_position_backward(device *d, void *dtable_, const void *dx_, size_t first,
                                   size_t rows, size_t T, size_t C, grad_mode mode) {
    (void)d;
    float *dtable = dtable_; /* (T, C) */
    const float *dx = dx_;   /* (rows, C) */
    if (mode == GRAD_SET) memset(dtable, 0, T * C * sizeof *dtable);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < C; c++) dtable[(first + i) % T * C + c] += dx[i * C + c];
    return TRINE_OK;
}
