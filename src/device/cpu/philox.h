/* Philox4x32-10 of base/rng.h for PHILOX_WIDE blocks at a time. Each word is the low half of 64 bits, so
 * that one instruction computes the 64-bit product and the halves need no shuffling.
 *
 * Invariant: the words are those of rng_philox4x32. Cost: some 90 instructions for 4 PHILOX_WIDE words. */
#ifndef TRINE_DEVICE_CPU_PHILOX_H
#define TRINE_DEVICE_CPU_PHILOX_H

#include <stdint.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* At most the width of the processor's registers (fused.h). */
#if defined(__AVX512F__)
#define PHILOX_WIDE 8
#elif defined(__AVX2__)
#define PHILOX_WIDE 4
#else
#define PHILOX_WIDE 2
#endif

typedef uint64_t philox_wide __attribute__((vector_size(PHILOX_WIDE * sizeof(uint64_t))));

/* Products of the low halves. */
#if defined(__AVX512F__)
static inline philox_wide philox_product(philox_wide a, philox_wide b) {
    return (philox_wide)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
static inline philox_wide philox_product(philox_wide a, philox_wide b) {
    return (philox_wide)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#elif defined(__aarch64__)
static inline philox_wide philox_product(philox_wide a, philox_wide b) {
    return (philox_wide)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
}
#else
static inline philox_wide philox_product(philox_wide a, philox_wide b) {
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
}
#endif

/* c: the four words of the counters on entry, the four results on return; upper halves are not used. */
static inline void philox_rounds(philox_wide c[4], uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        philox_wide p0 = philox_product(c[0], (philox_wide){0} + 0xD2511F53u);
        philox_wide p1 = philox_product(c[2], (philox_wide){0} + 0xCD9E8D57u);
        c[0] = (p1 >> 32) ^ c[1] ^ k0;
        c[1] = p1;
        c[2] = (p0 >> 32) ^ c[3] ^ k1;
        c[3] = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

#endif
