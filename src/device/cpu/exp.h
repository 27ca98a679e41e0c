/* e^x in arithmetic that vectorises: x = n ln 2 + r, |r| <= 0.35, e^r by its Taylor series up to r^7
 * (relative truncation error below 6e-9), times 2^n in two steps so that the ends of the range
 * overflow and underflow correctly.
 *
 * Invariant: relative error below 1e-7 where e^x is a normal number; 0 for -inf, inf for inf, NaN
 * for NaN. tests/ops/precision.c measures it. Cost: about 20 operations, no table, no branch.
 * The reduction is that of Cody and Waite, "Software manual for the elementary functions", 1980,
 * chapter 6. */
#ifndef TRINE_DEVICE_CPU_EXP_H
#define TRINE_DEVICE_CPU_EXP_H

#include <stdint.h>
#include <string.h>

#include "device/cpu/fused.h"

/* Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits. */
#define EXP_SHIFT 12582912.0f

static inline float exp_power_of_two(uint32_t n) {
    uint32_t bits = (n + 127u) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* n + EXP_SHIFT. */
static inline float exp_shifted(float x) {
    return fused(x, 1.44269504088896341f, EXP_SHIFT);
}

/* n, in two's complement. */
static inline uint32_t exp_integer(float shifted) {
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4B400000u;
}

/* e^r */
static inline float exp_rest(float x, float shifted) {
    float n = shifted - EXP_SHIFT;
    float r = fused(n, -0.693145751953125f, x); /* ln 2, high and low */
    r = fused(n, -1.42860682030941723e-6f, r);
    float e = 1.0f / 5040.0f;
    e = fused(e, r, 1.0f / 720.0f);
    e = fused(e, r, 1.0f / 120.0f);
    e = fused(e, r, 1.0f / 24.0f);
    e = fused(e, r, 1.0f / 6.0f);
    e = fused(e, r, 0.5f);
    return fused(e * r, r, r) + 1.0f;
}

static inline float exp_fast(float x) {
    /* A NaN fails both comparisons and stays a NaN in the series and the products. */
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = exp_shifted(x);
    float e = exp_rest(x, shifted);
    uint32_t power = exp_integer(shifted);
    uint32_t half = (uint32_t)((int32_t)power >> 1);
    return e * exp_power_of_two(half) * exp_power_of_two(power - half);
}

typedef uint32_t exp_words __attribute__((vector_size(VEC * sizeof(uint32_t))));
typedef int32_t exp_signed __attribute__((vector_size(VEC * sizeof(int32_t))));

/* exp_rest of a vector; n = shifted - EXP_SHIFT. */
static inline vec exp_rest_vec(vec x, vec n) {
    vec r = fused_vec(n, vec_of(-0.693145751953125f), x);
    r = fused_vec(n, vec_of(-1.42860682030941723e-6f), r);
    vec e = vec_of(1.0f / 5040.0f);
    e = fused_vec(e, r, vec_of(1.0f / 720.0f));
    e = fused_vec(e, r, vec_of(1.0f / 120.0f));
    e = fused_vec(e, r, vec_of(1.0f / 24.0f));
    e = fused_vec(e, r, vec_of(1.0f / 6.0f));
    e = fused_vec(e, r, vec_of(0.5f));
    return fused_vec(e * r, r, r) + 1.0f;
}

/* e^x of a vector, in exp_fast's operations. A build with AVX-512 takes some 18: the limits and the power of two are
 * instructions, which the compiler does not find. It rounds results below 2^-126 once, so they may differ from
 * exp_fast's in the last bit. (max and min return their second operand if either is a NaN.) */
#if defined(__AVX512F__)
static inline vec exp_vec(vec x) {
    __m512 cut = _mm512_max_ps((__m512)vec_of(-104.0f), (__m512)x);
    vec in = (vec)_mm512_min_ps((__m512)vec_of(89.0f), cut);
    vec n = fused_vec(in, vec_of(1.44269504088896341f), vec_of(EXP_SHIFT)) - EXP_SHIFT;
    return (vec)_mm512_scalef_ps((__m512)exp_rest_vec(in, n), (__m512)n);
}
#else
static inline vec exp_cut(exp_signed where, float limit, vec x) {
    return (vec)((where & (exp_signed)vec_of(limit)) | (~where & (exp_signed)x));
}

static inline vec exp_vec(vec x) {
    x = exp_cut(x < -104.0f, -104.0f, x);
    x = exp_cut(x > 89.0f, 89.0f, x);
    const vec shifted = fused_vec(x, vec_of(1.44269504088896341f), vec_of(EXP_SHIFT));
    const exp_words n = (exp_words)shifted - 0x4B400000u;
    const exp_words half = (exp_words)((exp_signed)n >> 1);
    const vec e = exp_rest_vec(x, shifted - EXP_SHIFT);
    return e * (vec)((half + 127u) << 23) * (vec)((n - half + 127u) << 23);
}
#endif

/* e^x for x <= 0, if the result is added to numbers near 1 or multiplied by them: 0 below -86, where 2^n
 * would need the second step. Some 16 operations. */
static inline float exp_below(float x) {
    float shifted = exp_shifted(x);
    float e = exp_rest(x, shifted) * exp_power_of_two(exp_integer(shifted));
    return x < -86.0f ? 0.0f : e;
}

#endif
