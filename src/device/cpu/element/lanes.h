/* Sums that vectorise without reordering: LANES partial sums, where SIMD lane j sums elements j,
 * j + LANES, ..., then added pairwise. With the compiler's vector types the order does not depend on
 * vector width, alignment or optimisation level. */
#ifndef TRINE_DEVICE_CPU_ELEMENT_LANES_H
#define TRINE_DEVICE_CPU_ELEMENT_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/half_line.h"
#include "device/cpu/element/element.h"

#define LANES HALF_LINE

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
/* The same at any float's address; may_alias since it reads arrays of float. */
typedef float lanes_at
    __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

typedef int32_t lanes_mask __attribute__((vector_size(LANES * sizeof(int32_t))));

static inline const lanes_at *lanes_load(const float *x) {
    return (const lanes_at *)x;
}

/* LANES numbers of each type. */
static inline void f32_lanes(lanes *out, const float *x) {
    *out = *lanes_load(x);
}
static inline void bf16_lanes(lanes *out, const uint16_t *x) {
    bf16_load_line(out, x);
}
static inline void f16_lanes(lanes *out, const uint16_t *x) {
    f16_load_line(out, x);
}
static inline void element_lanes(lanes *out, const element *x) {
    TYPE_NAME(ELEMENT, lanes)(out, x);
}

/* The reverse: rounded as element_put. */
static inline void f32_store_lanes(float *x, const lanes *in) {
    *(lanes_at *)x = *in;
}
static inline void bf16_store_lanes(uint16_t *x, const lanes *in) {
    bf16_store_line(x, in);
}
static inline void f16_store_lanes(uint16_t *x, const lanes *in) {
    f16_store_line(x, in);
}
static inline void element_store_lanes(element *x, const lanes *in) {
    TYPE_NAME(ELEMENT, store_lanes)(x, in);
}

/* Lane j + width onto lane j, for width 8, 4, 2, 1. The loop says what is added to what; compilers take it through
 * memory, so the first steps are shuffles where the compiler has them. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define LANES_SHUFFLE
#endif
#endif
#ifdef LANES_SHUFFLE
static inline float lanes_total(const lanes *sums) {
    typedef float eight __attribute__((vector_size(8 * sizeof(float))));
    typedef float four __attribute__((vector_size(4 * sizeof(float))));
    lanes s = *sums;
    eight a = __builtin_shufflevector(s, s, 0, 1, 2, 3, 4, 5, 6, 7) +
              __builtin_shufflevector(s, s, 8, 9, 10, 11, 12, 13, 14, 15);
    four b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    b += __builtin_shufflevector(b, b, 2, 3, 0, 1);
    return b[0] + b[1];
}
#else
static inline float lanes_total(const lanes *sums) {
    lanes s = *sums;
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t j = 0; j < width; j++) s[j] += s[j + width];
    return s[0];
}
#endif

static inline float lanes_sum_elements(const element *x, size_t n) {
    lanes sums = {0}, next;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        element_lanes(&next, x + i);
        sums += next;
    }
    for (size_t j = 0; i + j < n; j++) sums[j] += element_get(x[i + j]);
    return lanes_total(&sums);
}

static inline void lanes_larger(lanes *most, const lanes *x) {
    lanes_mask take = *x > *most;
    *most = (lanes)((take & (lanes_mask)*x) | (~take & (lanes_mask)*most));
}

/* The maximum, ignoring NaNs; -inf if there are no other elements. Several vectors are compared at a time
 * to hide the latency of a comparison. */
static inline float lanes_max(const float *x, size_t n) {
    enum { AT_ONCE = 4 };
    lanes most[AT_ONCE];
    for (size_t k = 0; k < AT_ONCE; k++) most[k] = (lanes){0} - INFINITY;
    size_t i = 0;
    for (; i + AT_ONCE * LANES <= n; i += AT_ONCE * LANES)
        for (size_t k = 0; k < AT_ONCE; k++) {
            lanes next = *lanes_load(x + i + k * LANES);
            lanes_larger(&most[k], &next);
        }
    for (size_t k = 1; k < AT_ONCE; k++) lanes_larger(&most[0], &most[k]);
    float max = -INFINITY;
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    for (size_t j = 0; j < LANES; j++) max = most[0][j] > max ? most[0][j] : max;
    return max;
}

#endif
