#include "device/cpu/element.h"

trine_status CPU(add)(device *d, void *y_, const void *x_, size_t n) {
    float *y = y_;
    const float *x = x_;
#pragma omp parallel for simd num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < n; i++) y[i] += x[i];
    return TRINE_OK;
}
