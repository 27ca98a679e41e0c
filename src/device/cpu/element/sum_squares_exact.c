#include "base/exact_sum.h"
#include "device/cpu/element/element.h"
#include "device/cpu/widen.h"

_Static_assert(EXACT_LANES == 2 * WIDE, "low and high are all lanes");

static inline void add_squares(wide64 *sums, const float *x) {
    wide64 wide;
    widen(&wide, x);
    *sums += wide * wide;
}

/* The block's elements as floats: in place if they are, else in `room`. */
static inline const float *floats_of(const grad *x, float room[EXACT_BLOCK]) {
    if (sizeof(grad) == sizeof(float)) return (const float *)(const void *)x;
#pragma omp simd
    for (size_t j = 0; j < EXACT_BLOCK; j++) room[j] = grad_get(x[j]);
    return room;
}

static inline double block_sum(const grad *block) {
    float room[EXACT_BLOCK];
    const float *x = floats_of(block, room);
    wide64 low = {0}, high = {0};
    for (size_t i = 0; i < EXACT_BLOCK; i += EXACT_LANES) {
        add_squares(&low, x + i);
        add_squares(&high, x + i + WIDE);
    }
    low += high;
    return (low[0] + low[2]) + (low[1] + low[3]);
}

/* Of the elements [from, to) of a block; the others are zero. */
static double cut_sum(const grad *x, size_t from, size_t to) {
    grad block[EXACT_BLOCK] = {0};
    memcpy(block + from, x + from, (to - from) * sizeof *x);
    return block_sum(block);
}

/* This thread's share of the blocks in which x has elements [from, to). */
static void add_part(exact_bins *sum, const grad *x, size_t from, size_t to) {
    const size_t end = (to + EXACT_BLOCK - 1) / EXACT_BLOCK;
#pragma omp for schedule(static) nowait
    for (size_t block = from / EXACT_BLOCK; block < end; block++) {
        const size_t at = block * EXACT_BLOCK, left = to - at;
        if (at >= from && left >= EXACT_BLOCK)
            exact_bins_add(sum, block_sum(x + at));
        else
            exact_bins_add(sum, cut_sum(x + at, at < from ? from - at : 0,
                                        left < EXACT_BLOCK ? left : EXACT_BLOCK));
    }
}

trine_status CPU(sum_squares_exact)(device *d, int64_t *digits, const void *x,
                                    const ops_part *parts, int count) {
#pragma omp parallel num_threads(d->threads)
    {
        exact_bins own = {0};
        for (int p = 0; p < count; p++)
            if (parts[p].n) add_part(&own, x, parts[p].at, parts[p].at + parts[p].n);
        exact_bins_empty(&own);
#pragma omp critical(sum_squares_exact)
        for (int i = 0; i < EXACT_WORDS; i++) digits[i] += own.sum[i];
    }
    exact_carry(digits);
    return TRINE_OK;
}
