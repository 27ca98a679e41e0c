/* 16-bit floating point as bits: bf16 (8 bits of exponent, 7 of mantissa) and fp16 (5 and 10; IEEE
 * 754-2019 binary16). Conversion to fp32 is exact; conversion from fp32 rounds to nearest, ties to even, as
 * CPUs and GPUs do, so that every backend stores the same bits for the same fp32 number. Overflow gives an
 * infinity, a NaN stays a (quiet) NaN, fp16 has subnormals.
 *
 * Cost: a few integer operations without data-dependent branches, so that bf16 loops vectorise. */
#ifndef TRINE_BASE_HALF_H
#define TRINE_BASE_HALF_H

#include <stdint.h>
#include <string.h>

/* Also for CUDA kernels. */
#if defined(__CUDACC__)
#define HALF_FUNCTION static inline __host__ __device__
#else
#define HALF_FUNCTION static inline
#endif

HALF_FUNCTION uint32_t half_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

HALF_FUNCTION float half_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

HALF_FUNCTION float bf16_load(uint16_t h) {
    return half_float((uint32_t)h << 16);
}

/* Adds half a unit in the last place, less one bit where the last kept bit is 0: rounds ties to even and
 * carries into the exponent. */
HALF_FUNCTION uint16_t bf16_store(float x) {
    uint32_t bits = half_bits(x);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/* Multiplying by 2^112 rebiases the exponent and normalises subnormals; infinities and NaNs get the largest
 * exponent instead. */
HALF_FUNCTION float f16_load(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7FFFu) << 13;
    float finite = half_float(rest) * half_float(0x77800000u);
    uint32_t bits = rest >= 0x0F800000u ? rest | 0x7F800000u : half_bits(finite);
    return half_float(sign | bits);
}

/* Below 2^-14 the number is added to 0.5, whose last bit is the smallest fp16 step, so that the addition
 * rounds; above, as bf16_store, 13 bits shorter and with the exponent rebiased by 112. */
HALF_FUNCTION uint16_t f16_store(float x) {
    uint32_t bits = half_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    uint32_t small = half_bits(half_float(rest) + 0.5f) - 0x3F000000u;
    uint32_t normal = (rest - 0x38000000u + 0x0FFFu + ((rest >> 13) & 1u)) >> 13;
    uint32_t out = rest < 0x38800000u ? small : normal;
    out = rest >= 0x477FF000u ? 0x7C00u : out;
    out = rest > 0x7F800000u ? 0x7E00u | (rest >> 13 & 0x1FFu) : out;
    return (uint16_t)(sign | out);
}

#endif
