#include "device/ref/ref.h"

trine_status ref_add(device *d, void *y_, const void *x_, size_t n) {
    float *y = y_;
    const float *x = x_;
    (void)d;
    for (size_t i = 0; i < n; i++) y[i] += x[i];
    return TRINE_OK;
}
