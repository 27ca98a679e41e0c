#include "device/ref/ref.h"

static double sum_part(const device *d, const void *x, const ops_part *part) {
    double sum = 0.0;
    for (size_t start = 0; start < part->n; start += SUM_SQUARES_BLOCK) {
        size_t left = part->n - start, n = left < SUM_SQUARES_BLOCK ? left : SUM_SQUARES_BLOCK;
        double block = 0.0;
        for (size_t i = part->at + start; i < part->at + start + n; i++)
            block += ref_load(d->grads, x, i) * ref_load(d->grads, x, i);
        sum += block;
    }
    return sum;
}

trine_status ref_sum_squares(device *d, double *sums, const void *x, const ops_part *parts,
                             int count) {
    for (int p = 0; p < count; p++) sums[p] = sum_part(d, x, &parts[p]);
    return TRINE_OK;
}
