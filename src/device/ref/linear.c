#include "device/ref/ref.h"

/* y (T, N), w (N, K), bias (N), residual (T, N), x (T, K) */
trine_status ref_linear_residual(device *d, void *y, const void *w, const void *bias,
                                 const void *residual, const void *x, size_t T, size_t N,
                                 size_t K) {
    const trine_dtype type = d->compute;
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n++) {
            double sum = bias ? ref_load(type, bias, n) : 0.0;
            if (residual) sum += ref_load(type, residual, t * N + n);
            for (size_t k = 0; k < K; k++)
                sum += ref_load(type, x, t * K + k) * ref_load(type, w, n * K + k);
            ref_store(type, y, t * N + n, sum);
        }
    return TRINE_OK;
}

trine_status ref_linear_forward(device *d, void *y, const void *w, const void *bias, const void *x,
                                size_t T, size_t N, size_t K) {
    return ref_linear_residual(d, y, w, bias, NULL, x, T, N, K);
}

/* dx (T, K), w (N, K), dy (T, N) */
trine_status ref_linear_backward_input(device *d, void *dx, const void *w, const void *dy, size_t T,
                                       size_t N, size_t K) {
    const trine_dtype type = d->compute;
    for (size_t t = 0; t < T; t++)
        for (size_t k = 0; k < K; k++) {
            double sum = 0.0;
            for (size_t n = 0; n < N; n++)
                sum += ref_load(type, dy, t * N + n) * ref_load(type, w, n * K + k);
            ref_store(type, dx, t * K + k, sum);
        }
    return TRINE_OK;
}

/* dw (N, K), dy (T, N), x (T, K) */
trine_status ref_linear_backward_weight(device *d, void *dw, void *dbias, const void *dy,
                                        const void *x, size_t T, size_t N, size_t K,
                                        grad_mode mode) {
    const trine_dtype type = d->compute;
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k++) {
            double sum = ref_old(d->grads, dw, n * K + k, mode);
            for (size_t t = 0; t < T; t++)
                sum += ref_load(type, dy, t * N + n) * ref_load(type, x, t * K + k);
            ref_store(d->grads, dw, n * K + k, sum);
        }
    return dbias ? ref_bias_backward(d, dbias, dy, T, N, mode) : TRINE_OK;
}
