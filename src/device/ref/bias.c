#include "device/ref/ref.h"

trine_status ref_bias_residual(device *d, void *y_, const void *bias_, const void *residual_,
                               size_t T, size_t N) {
    (void)d;
    float *y = y_;                                    /* (T, N) */
    const float *bias = bias_, *residual = residual_; /* (N), (T, N) */
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n++) {
            float *out = &y[t * N + n];
            if (bias) *out += bias[n];
            if (residual) *out += residual[t * N + n];
        }
    return TRINE_OK;
}

trine_status ref_bias_backward(device *d, void *dbias_, const void *dy_, size_t T, size_t N,
                               grad_mode mode) {
    float *dbias = dbias_;
    (void)d;
    const float *dy = dy_; /* (T, N) */
    for (size_t n = 0; n < N; n++) {
        double sum = mode == GRAD_ADD ? (double)dbias[n] : 0.0;
        for (size_t t = 0; t < T; t++) sum += (double)dy[t * N + n];
        dbias[n] = (float)sum;
    }
    return TRINE_OK;
}
