/* Sums that vectorise without reordering: LANES partial sums, lane j taking elements j, j + LANES,
 * ..., then added pairwise. The compiler's own vector types say so in a way that no vector width,
 * alignment or optimisation level can change. */
#ifndef TRINE_DEVICE_CPU_LANES_H
#define TRINE_DEVICE_CPU_LANES_H

#include <stddef.h>

#define LANES 16

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
/* The same at any float's address; may_alias since it reads arrays of float. */
typedef float lanes_at
    __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

static inline const lanes_at *lanes_load(const float *x) {
    return (const lanes_at *)x;
}

/* Lane j + width onto lane j, for width 8, 4, 2, 1. */
static inline float lanes_total(const lanes *sums) {
    lanes s = *sums;
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t j = 0; j < width; j++) s[j] += s[j + width];
    return s[0];
}

static inline float lanes_sum(const float *x, size_t n) {
    lanes sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sums += *lanes_load(x + i);
    for (size_t j = 0; i + j < n; j++) sums[j] += x[i + j];
    return lanes_total(&sums);
}

#endif
