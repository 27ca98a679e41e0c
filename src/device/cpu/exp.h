/* e^x in arithmetic that vectorises: x = n ln 2 + r, |r| <= 0.35, e^r by Taylor's series up to r^7
 * (what is left out is below 6e-9 of it), times 2^n in two steps so that the ends of the range
 * overflow and underflow as they should.
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

static inline float exp_power_of_two(uint32_t n) {
    uint32_t bits = (n + 127u) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

static inline float exp_fast(float x) {
    /* Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits. A NaN fails
     * both comparisons, stays a NaN in the series, and a NaN times anything is one. */
    const float shift = 12582912.0f;
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = fused(x, 1.44269504088896341f, shift);
    float n = shifted - shift;
    float r = fused(n, -0.693145751953125f, x); /* ln 2, high and low */
    r = fused(n, -1.42860682030941723e-6f, r);
    float e = 1.0f / 5040.0f;
    e = fused(e, r, 1.0f / 720.0f);
    e = fused(e, r, 1.0f / 120.0f);
    e = fused(e, r, 1.0f / 24.0f);
    e = fused(e, r, 1.0f / 6.0f);
    e = fused(e, r, 0.5f);
    e = fused(e * r, r, r) + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    uint32_t power = bits - 0x4B400000u; /* n, in two's complement */
    uint32_t half = (uint32_t)((int32_t)power >> 1);
    return e * exp_power_of_two(half) * exp_power_of_two(power - half);
}

#endif
