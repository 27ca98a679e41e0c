#include "base/exact_sum.h"
#include "device/ref/ref.h"

/* The squares of elements [at, at + EXACT_BLOCK) of x that are in the part. */
static double block_sum(const device *d, const void *x, size_t at, const ops_part *part) {
    double sums[EXACT_LANES] = {0};
    for (size_t i = 0; i < EXACT_BLOCK; i++) {
        if (at + i < part->at || at + i >= part->at + part->n) continue;
        double value = ref_load(d->grads, x, at + i);
        sums[i % EXACT_LANES] += value * value;
    }
    for (size_t apart = EXACT_LANES / 2; apart > 0; apart /= 2)
        for (size_t j = 0; j < apart; j++) sums[j] += sums[j + apart];
    return sums[0];
}

trine_status ref_sum_squares_exact(device *d, int64_t *digits, const void *x, const ops_part *parts,
                                   int count) {
    for (int p = 0; p < count; p++) {
        size_t first = parts[p].at / EXACT_BLOCK * EXACT_BLOCK;
        for (size_t at = first; at < parts[p].at + parts[p].n; at += EXACT_BLOCK)
            exact_add(digits, block_sum(d, x, at, &parts[p]));
        exact_carry(digits);
    }
    return TRINE_OK;
}
