#include "device/dropout.h"
#include "device/ref/ref.h"

/* The factor of element i of the call, whose rows have N elements. */
static float factor(const dropout_args *drop, size_t i, size_t N) {
    size_t row = drop->first + i / N;
    return dropout_factor(drop, drop->sample + row / drop->T, dropout_row(drop, row, N) + i % N);
}

/* y (T, N), bias (N), residual (T, N) */
trine_status ref_dropout_residual(device *d, void *y, const void *bias, const void *residual,
                                  const dropout_args *drop, size_t T, size_t N) {
    trine_dtype type = d->compute;
    for (size_t i = 0; i < T * N; i++) {
        float x = (float)ref_load(type, y, i);
        if (bias) x += (float)ref_load(type, bias, i % N);
        ref_store(type, y, i,
                  (double)(x * factor(drop, i, N) + (float)ref_load(type, residual, i)));
    }
    return TRINE_OK;
}

trine_status ref_dropout(device *d, void *y, const void *x, const dropout_args *drop, size_t T,
                         size_t N) {
    for (size_t i = 0; i < T * N; i++) {
        float value = (float)ref_load(d->compute, x, i);
        ref_store(d->compute, y, i, (double)(value * factor(drop, i, N)));
    }
    return TRINE_OK;
}
