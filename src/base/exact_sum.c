#include "base/exact_sum.h"

#include <math.h>

void exact_bins_empty(exact_bins *b) {
    for (unsigned bin = 0; bin < EXACT_BINS; bin++)
        if (b->bins[bin]) exact_put(b->sum, b->bins[bin], bin);
    memset(b->bins, 0, sizeof b->bins);
    b->count = 0;
}

/* The digits as bits, from bit 0 on; the last has 64. */
#define BITS (32 * (EXACT_DIGITS + 1))

static uint64_t bit_of(const int64_t *sum, int at) {
    int digit = at / 32 < EXACT_DIGITS ? at / 32 : EXACT_DIGITS - 1;
    return (uint64_t)sum[digit] >> (at - 32 * digit) & 1;
}

/* The highest 64 bits from the first that is set, and whether a lower one is: converted to 53 bits, they round as all
 * bits would. */
double exact_value(const int64_t *uncarried) {
    int64_t sum[EXACT_WORDS];
    int high = BITS - 1, low;
    uint64_t bits = 0, rest = 0;
    memcpy(sum, uncarried, sizeof sum);
    if (sum[EXACT_NANS]) return NAN;
    if (sum[EXACT_INFINITIES]) return INFINITY;
    exact_carry(sum);
    while (high >= 0 && !bit_of(sum, high)) high--;
    low = high < 63 ? 0 : high - 63;
    for (int i = high; i >= low; i--) bits = bits << 1 | bit_of(sum, i);
    for (int i = 0; i < low; i++) rest |= bit_of(sum, i);
    return ldexp((double)(bits | rest), low + EXACT_UNIT);
}
