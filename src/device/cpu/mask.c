#include "device/cpu/mask.h"

#include <string.h>

#include "device/cpu/philox.h"

#define PACK (4 * PHILOX_WIDE) /* elements of PHILOX_WIDE blocks */

/* low_pairs {a0, b0, a2, b2, ...}, high_pairs {a1, b1, a3, b3, ...}; ORDER is the order of the Philox
 * blocks in a vector for which low_pairs followed by high_pairs are in ascending order of blocks. */
#if defined(__AVX512F__)
#define ORDER 0, 4, 1, 5, 2, 6, 3, 7
static inline philox_wide low_pairs(philox_wide a, philox_wide b) {
    return (philox_wide)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
}
static inline philox_wide high_pairs(philox_wide a, philox_wide b) {
    return (philox_wide)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
#define ORDER 0, 2, 1, 3
static inline philox_wide low_pairs(philox_wide a, philox_wide b) {
    return (philox_wide)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
}
static inline philox_wide high_pairs(philox_wide a, philox_wide b) {
    return (philox_wide)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
}
#else
#define ORDER 0, 1
static inline philox_wide low_pairs(philox_wide a, philox_wide b) {
    return (philox_wide){a[0], b[0]};
}
static inline philox_wide high_pairs(philox_wide a, philox_wide b) {
    return (philox_wide){a[1], b[1]};
}
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "two words in 64 bits, the first one in the low half");

/* The words of the PHILOX_WIDE Philox blocks from `block` on, in the order of elements. */
static inline void words_of(uint32_t words[PACK], const dropout_args *drop, uint64_t sample,
                            uint64_t block) {
    philox_wide index = (philox_wide){ORDER} + block, c[4], rows[2];
    c[0] = index;
    c[1] = index >> 32;
    c[2] = (philox_wide){0} + sample;
    c[3] = (philox_wide){0} + (sample >> 32);
    philox_rounds(c, drop->key);
    philox_wide first = (c[0] & 0xFFFFFFFFu) | c[1] << 32;
    philox_wide second = (c[2] & 0xFFFFFFFFu) | c[3] << 32;
    rows[0] = low_pairs(first, second);
    rows[1] = high_pairs(first, second);
    memcpy(words, rows, PACK * sizeof *words);
}

void cpu_dropout_factors(float *factors, size_t n, const dropout_args *drop, uint64_t sample,
                         uint64_t element) {
    const uint32_t threshold = dropout_threshold(drop->p);
    const float scale = dropout_scale(drop->p);
    size_t skip = element % 4; /* of the first block */
    for (uint64_t block = element / 4; n > 0; block += PHILOX_WIDE) {
        uint32_t words[PACK];
        size_t count = n < PACK - skip ? n : PACK - skip;
        words_of(words, drop, sample, block);
#pragma omp simd
        for (size_t i = 0; i < count; i++) factors[i] = words[skip + i] >= threshold ? scale : 0.0f;
        factors += count, n -= count, skip = 0;
    }
}
