#include "device/cpu/cpu.h"

trine_status cpu_add(device *d, float *y, const float *x, size_t n) {
#pragma omp parallel for simd num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < n; i++) y[i] += x[i];
    return TRINE_OK;
}
