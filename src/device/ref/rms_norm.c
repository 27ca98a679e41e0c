#include "device/ref/rms_row.h"

/* y, x (T, C); gain (C) */
trine_status ref_rms_norm_forward(device *d, void *y, float *stat, const void *gain, const void *x,
                                  float eps, size_t T, size_t C) {
    for (size_t t = 0; t < T; t++)
        stat[t] = rms_row_forward(d->compute, y, gain, x, (double)eps, t * C, C);
    return TRINE_OK;
}

/* dx, dy, x (T, C); dgain, gain (C) */
trine_status ref_rms_norm_backward(device *d, void *dx, void *dgain, const void *dy,
                                   const void *gain, const void *x, const float *stat, size_t T,
                                   size_t C, grad_mode stream, grad_mode mode) {
    rms_gain_backward(d, dgain, dy, x, stat, T, 1, 0, C, 0, 1, mode);
    for (size_t t = 0; t < T; t++)
        rms_row_backward(d->compute, dx, dy, gain, x, (double)stat[t], t * C, C, stream);
    return TRINE_OK;
}
