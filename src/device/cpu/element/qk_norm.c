#include <string.h>

#include "base/status.h"
#include "device/cpu/element/rms_row.h"

trine_status CPU(qk_norm_forward)(device *d, void *y_, float *stat, const void *q_gain,
                                  const void *k_gain, const void *x_, float eps, size_t T, size_t H,
                                  size_t K, size_t D) {
    element *y = y_;       /* (T, H + 2 K, D) */
    const element *x = x_; /* (T, H + 2 K, D) */
#pragma omp parallel for if (T > 1) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        size_t row = t * (H + 2 * K) * D, values = row + (H + K) * D;
        for (size_t h = 0; h < H + K; h++)
            stat[t * (H + K) + h] =
                rms_row_forward(y + row + h * D, h < H ? q_gain : k_gain, x + row + h * D, eps, D);
        memcpy(y + values, x + values, K * D * sizeof *y);
    }
    return TRINE_OK;
}

/* Row t of the backward pass; `stat` is the row's. sums (2, D) of the query and of the key heads. */
static void row_backward(element *dx, float *sums, const element *dy, const element *q_gain,
                         const element *k_gain, const element *x, const float *stat, size_t H,
                         size_t K, size_t D) {
    for (size_t h = 0; h < H + K; h++)
        rms_row_backward(dx + h * D, h < H ? sums : sums + D, dy + h * D, h < H ? q_gain : k_gain,
                         x + h * D, stat[h], D, GRAD_SET);
    if (dx != dy) memcpy(dx + (H + K) * D, dy + (H + K) * D, K * D * sizeof *dx);
}

trine_status CPU(qk_norm_backward)(device *d, void *dx_, void *dq_gain, void *dk_gain,
                                   const void *dy_, const void *q_gain, const void *k_gain,
                                   const void *x_, const float *stat, size_t T, size_t H, size_t K,
                                   size_t D, grad_mode mode) {
    element *dx = dx_;                /* (T, H + 2 K, D) */
    const element *dy = dy_, *x = x_; /* (T, H + 2 K, D) */
    const size_t rows = rms_group(T), width = (H + 2 * K) * D;
    float totals[RMS_WIDEST];
    CHECK(D <= RMS_WIDEST / 2, TRINE_EUNSUPPORTED,
          "qk_norm_backward: heads of %zu; the cpu device supports %d", D, RMS_WIDEST / 2);
    rms_start(totals, dq_gain, D, mode);
    rms_start(totals + D, dk_gain, D, mode);
#pragma omp parallel num_threads(d->threads)
    {
        float sums[RMS_WIDEST];
#pragma omp for ordered schedule(static, 1)
        for (size_t first = 0; first < T; first += rows) {
            memset(sums, 0, 2 * D * sizeof *sums);
            for (size_t t = first; t < T && t < first + rows; t++)
                row_backward(dx + t * width, sums, dy + t * width, q_gain, k_gain, x + t * width,
                             stat + t * (H + K), H, K, D);
#pragma omp ordered
            rms_add(totals, sums, 2 * D);
        }
    }
    rms_end(dq_gain, totals, D);
    rms_end(dk_gain, totals + D, D);
    return TRINE_OK;
}
