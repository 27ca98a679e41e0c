#include <string.h>

#include "device/cpu/cpu.h"

trine_status cpu_position_forward(device *d, void *x_, const void *table_, size_t B, size_t T,
                                  size_t C) {
    float *x = x_;               /* (B, T, C) */
    const float *table = table_; /* (T, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static) collapse(2)
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < T; t++) {
            float *row = x + (b * T + t) * C;
#pragma omp simd
            for (size_t c = 0; c < C; c++) row[c] += table[t * C + c];
        }
    return TRINE_OK;
}

trine_status cpu_position_backward(device *d, float *dtable, const void *dx_, size_t B, size_t T,
                                   size_t C, grad_mode mode) {
    const float *dx = dx_; /* (B, T, C) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        if (mode == GRAD_SET) memset(dtable + t * C, 0, C * sizeof *dtable);
        for (size_t b = 0; b < B; b++) {
            const float *row = dx + (b * T + t) * C;
#pragma omp simd
            for (size_t c = 0; c < C; c++) dtable[t * C + c] += row[c];
        }
    }
    return TRINE_OK;
}
