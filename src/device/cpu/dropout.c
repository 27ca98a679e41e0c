#include "device/dropout.h"

#include "device/cpu/element.h"

/* Of element c of the call's row i, in rows of N. */
static float factor(const dropout_args *drop, size_t i, size_t c, size_t N) {
    size_t row = drop->first + i;
    return dropout_factor(drop, drop->sample + row / drop->T, row % drop->T * N + c);
}

trine_status CPU(dropout_residual)(device *d, void *y_, const void *bias_, const void *residual_,
                                   const dropout_args *drop, size_t T, size_t N) {
    float *y = y_;                                    /* (T, N) */
    const float *bias = bias_, *residual = residual_; /* (N), (T, N) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n++) {
            float *out = &y[t * N + n], x = bias ? *out + bias[n] : *out;
            *out = x * factor(drop, t, n, N) + residual[t * N + n];
        }
    return TRINE_OK;
}

trine_status CPU(dropout)(device *d, void *y_, const void *x_, const dropout_args *drop, size_t T,
                          size_t N) {
    float *y = y_;       /* (T, N) */
    const float *x = x_; /* (T, N) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n++) y[t * N + n] = x[t * N + n] * factor(drop, t, n, N);
    return TRINE_OK;
}
