#include "device/cpu/element/element.h"
#include "device/cpu/mask.h"

#define SEGMENT 256 /* elements of a row whose factors stay in the L1 cache */

/* y = (y + bias) * factor + residual; bias may be NULL. */
static void piece_residual(element *y, const element *bias, const element *residual,
                           const float *factors, size_t n) {
    if (bias) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            float x = element_get(y[i]) + element_get(bias[i]);
            y[i] = element_put(x * factors[i] + element_get(residual[i]));
        }
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] = element_put(element_get(y[i]) * factors[i] + element_get(residual[i]));
}

static void piece_alone(element *y, const element *x, const float *factors, size_t n) {
#pragma omp simd
    for (size_t i = 0; i < n; i++) y[i] = element_put(element_get(x[i]) * factors[i]);
}

/* The factors of columns [c, c + n) of the call's row t; rows have N columns. */
static void factors_at(float *factors, const dropout_args *drop, size_t t, size_t c, size_t n,
                       size_t N) {
    size_t row = drop->first + t;
    cpu_dropout_factors(factors, n, drop, drop->sample + row / drop->T,
                        dropout_row(drop, row, N) + c);
}

trine_status CPU(dropout_residual)(device *d, void *y_, const void *bias_, const void *residual_,
                                   const dropout_args *drop, size_t T, size_t N) {
    element *y = y_;                                    /* (T, N) */
    const element *bias = bias_, *residual = residual_; /* (N), (T, N) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < N; c += SEGMENT) {
            size_t n = N - c < SEGMENT ? N - c : SEGMENT, at = t * N + c;
            float factors[SEGMENT];
            factors_at(factors, drop, t, c, n, N);
            piece_residual(y + at, bias ? bias + c : NULL, residual + at, factors, n);
        }
    return TRINE_OK;
}

trine_status CPU(dropout)(device *d, void *y_, const void *x_, const dropout_args *drop, size_t T,
                          size_t N) {
    element *y = y_;       /* (T, N) */
    const element *x = x_; /* (T, N) */
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < N; c += SEGMENT) {
            size_t n = N - c < SEGMENT ? N - c : SEGMENT, at = t * N + c;
            float factors[SEGMENT];
            factors_at(factors, drop, t, c, n, N);
            piece_alone(y + at, x + at, factors, n);
        }
    return TRINE_OK;
}
