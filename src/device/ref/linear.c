#include "device/ref/ref.h"

trine_status ref_linear_forward(device *d, void *y_, const void *w_, const void *bias_,
                                const void *x_, size_t T, size_t N, size_t K) {
    (void)d;
    float *y = y_;                               /* (T, N) */
    const float *w = w_, *bias = bias_, *x = x_; /* (N, K), (N), (T, K) */
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n++) {
            double sum = bias ? (double)bias[n] : 0.0;
            for (size_t k = 0; k < K; k++) sum += (double)x[t * K + k] * (double)w[n * K + k];
            y[t * N + n] = (float)sum;
        }
    return TRINE_OK;
}

trine_status ref_linear_backward_input(device *d, void *dx_, const void *w_, const void *dy_,
                                       size_t T, size_t N, size_t K) {
    (void)d;
    float *dx = dx_;                /* (T, K) */
    const float *w = w_, *dy = dy_; /* (N, K), (T, N) */
    for (size_t t = 0; t < T; t++)
        for (size_t k = 0; k < K; k++) {
            double sum = 0.0;
            for (size_t n = 0; n < N; n++) sum += (double)dy[t * N + n] * (double)w[n * K + k];
            dx[t * K + k] = (float)sum;
        }
    return TRINE_OK;
}

trine_status ref_linear_backward_weight(device *d, void *dw_, void *dbias_, const void *dy_,
                                        const void *x_, size_t T, size_t N, size_t K,
                                        grad_mode mode) {
    float *dw = dw_;
    float *dbias = dbias_;
    const float *dy = dy_, *x = x_; /* (T, N), (T, K) */
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k++) {
            double sum = mode == GRAD_ADD ? (double)dw[n * K + k] : 0.0;
            for (size_t t = 0; t < T; t++) sum += (double)dy[t * N + n] * (double)x[t * K + k];
            dw[n * K + k] = (float)sum;
        }
    return dbias ? ref_bias_backward(d, dbias, dy, T, N, mode) : TRINE_OK;
}
