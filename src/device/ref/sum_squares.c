#include "device/ref/ref.h"

trine_status ref_sum_squares(device *d, double *sum, const void *x, size_t n) {
    *sum = 0.0;
    for (size_t start = 0; start < n; start += SUM_SQUARES_BLOCK) {
        size_t end = n - start < SUM_SQUARES_BLOCK ? n : start + SUM_SQUARES_BLOCK;
        double block = 0.0;
        for (size_t i = start; i < end; i++)
            block += ref_load(d->grads, x, i) * ref_load(d->grads, x, i);
        *sum += block;
    }
    return TRINE_OK;
}
