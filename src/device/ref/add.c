#include "device/ref/ref.h"

trine_status ref_add(device *d, float *y, const float *x, size_t n) {
    (void)d;
    for (size_t i = 0; i < n; i++) y[i] += x[i];
    return TRINE_OK;
}
