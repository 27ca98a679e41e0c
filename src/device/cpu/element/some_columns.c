/* Compiled once for each pair of types (element.h). */
#include "device/cpu/element/element.h"

trine_status CPU(columns_add)(device *d, void *y_, const void *x_, float scale, size_t T, size_t N,
                              size_t at, size_t n) {
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        element *y = (element *)y_ + t * N + at;
        const element *x = (const element *)x_ + t * n;
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] = element_put(element_get(y[i]) + scale * element_get(x[i]));
    }
    return TRINE_OK;
}

trine_status CPU(columns_take)(device *d, void *y_, const void *x_, float scale, size_t T, size_t N,
                               size_t at, size_t n) {
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++) {
        element *y = (element *)y_ + t * n;
        const element *x = (const element *)x_ + t * N + at;
#pragma omp simd
        for (size_t i = 0; i < n; i++) y[i] = element_put(scale * element_get(x[i]));
    }
    return TRINE_OK;
}
