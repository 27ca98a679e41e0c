#include <string.h>

#include "base/status.h"
#include "device/cpu/element/rms_row.h"

trine_status CPU(rms_norm_forward)(device *d, void *y_, float *stat, const void *gain,
                                   const void *x_, float eps, size_t T, size_t C) {
    element *y = y_;       /* (T, C) */
    const element *x = x_; /* (T, C) */
#pragma omp parallel for if (T > 1) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) stat[t] = rms_row_forward(y + t * C, gain, x + t * C, eps, C);
    return TRINE_OK;
}

trine_status CPU(rms_norm_backward)(device *d, void *dx_, void *dgain, const void *dy_,
                                    const void *gain, const void *x_, const float *stat, size_t T,
                                    size_t C, grad_mode stream, grad_mode mode) {
    element *dx = dx_;                /* (T, C) */
    const element *dy = dy_, *x = x_; /* (T, C) */
    const size_t rows = rms_group(T);
    float totals[RMS_WIDEST];
    CHECK(C <= RMS_WIDEST, TRINE_EUNSUPPORTED,
          "rms_norm_backward: %zu columns; the cpu device supports %d", C, RMS_WIDEST);
    rms_start(totals, dgain, C, mode);
#pragma omp parallel num_threads(d->threads)
    {
        float sums[RMS_WIDEST];
#pragma omp for ordered schedule(static, 1)
        for (size_t first = 0; first < T; first += rows) {
            memset(sums, 0, C * sizeof *sums);
            for (size_t t = first; t < T && t < first + rows; t++)
                rms_row_backward(dx + t * C, sums, dy + t * C, gain, x + t * C, stat[t], C, stream);
#pragma omp ordered
            rms_add(totals, sums, C);
        }
    }
    rms_end(dgain, totals, C);
    return TRINE_OK;
}
