#include "device/ref/rms_row.h"

/* K value heads of the row that starts at element `at`. */
static void copy_values(trine_dtype type, void *y, const void *x, size_t at, size_t K, size_t D) {
    for (size_t i = at; i < at + K * D; i++) ref_store(type, y, i, ref_load(type, x, i));
}

/* y, x (T, H + 2 K, D); q_gain, k_gain (D) */
trine_status ref_qk_norm_forward(device *d, void *y, float *stat, const void *q_gain,
                                 const void *k_gain, const void *x, float eps, size_t T, size_t H,
                                 size_t K, size_t D) {
    for (size_t t = 0; t < T; t++) {
        size_t row = t * (H + 2 * K) * D;
        for (size_t h = 0; h < H + K; h++)
            stat[t * (H + K) + h] = rms_row_forward(d->compute, y, h < H ? q_gain : k_gain, x,
                                                    (double)eps, row + h * D, D);
        copy_values(d->compute, y, x, row + (H + K) * D, K, D);
    }
    return TRINE_OK;
}

/* dx, dy, x (T, H + 2 K, D); dx may be dy */
trine_status ref_qk_norm_backward(device *d, void *dx, void *dq_gain, void *dk_gain, const void *dy,
                                  const void *q_gain, const void *k_gain, const void *x,
                                  const float *stat, size_t T, size_t H, size_t K, size_t D,
                                  grad_mode mode) {
    rms_gain_backward(d, dq_gain, dy, x, stat, T, H, K, D, 0, H, mode);
    rms_gain_backward(d, dk_gain, dy, x, stat, T, H, K, D, H, H + K, mode);
    for (size_t t = 0; t < T; t++) {
        size_t row = t * (H + 2 * K) * D;
        for (size_t h = 0; h < H + K; h++)
            rms_row_backward(d->compute, dx, dy, h < H ? q_gain : k_gain, x,
                             (double)stat[t * (H + K) + h], row + h * D, D, GRAD_SET);
        copy_values(d->compute, dx, dy, row + (H + K) * D, K, D);
    }
    return TRINE_OK;
}
