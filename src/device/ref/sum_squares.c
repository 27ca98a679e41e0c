#include "device/ref/ref.h"

trine_status ref_sum_squares(device *d, double *sum, const void *x_, size_t n) {
    const float *x = x_;
    (void)d;
    *sum = 0.0;
    for (size_t start = 0; start < n; start += SUM_SQUARES_BLOCK) {
        size_t end = n - start < SUM_SQUARES_BLOCK ? n : start + SUM_SQUARES_BLOCK;
        double block = 0.0;
        for (size_t i = start; i < end; i++) block += (double)x[i] * (double)x[i];
        *sum += block;
    }
    return TRINE_OK;
}
