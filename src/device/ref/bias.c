#include "device/ref/ref.h"

/* y (T, N), bias (N), residual (T, N) */
trine_status ref_bias_residual(device *d, void *y, const void *bias, const void *residual, size_t T,
                               size_t N) {
    trine_dtype type = d->compute;
    for (size_t i = 0; i < T * N; i++) {
        float sum = (float)ref_load(type, y, i);
        if (bias) sum += (float)ref_load(type, bias, i % N);
        if (residual) sum += (float)ref_load(type, residual, i);
        ref_store(type, y, i, (double)sum);
    }
    return TRINE_OK;
}

/* dy (T, N) */
trine_status ref_bias_backward(device *d, void *dbias, const void *dy, size_t T, size_t N,
                               grad_mode mode) {
    for (size_t n = 0; n < N; n++) {
        double sum = ref_old(d->grads, dbias, n, mode);
        for (size_t t = 0; t < T; t++) sum += ref_load(d->compute, dy, t * N + n);
        ref_store(d->grads, dbias, n, sum);
    }
    return TRINE_OK;
}
