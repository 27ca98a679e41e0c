#include "device/cpu/mask.h"

#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Not wider than the processor's registers (fused.h). ORDER: of the blocks in a vector, such that PAIRS
 * leave them in their own. */
#if defined(__AVX512F__)
#define WIDE  8
#define ORDER 0, 4, 1, 5, 2, 6, 3, 7
#elif defined(__AVX2__)
#define WIDE  4
#define ORDER 0, 2, 1, 3
#else
#define WIDE  2
#define ORDER 0, 1
#endif

typedef uint64_t wide __attribute__((vector_size(WIDE * sizeof(uint64_t))));

/* product: of the low halves. low_pairs: {a0, b0, a2, b2, ...}, high_pairs: {a1, b1, a3, b3, ...} */
#if defined(__AVX512F__)
static inline wide product(wide a, wide b) {
    return (wide)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
static inline wide low_pairs(wide a, wide b) {
    return (wide)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
}
static inline wide high_pairs(wide a, wide b) {
    return (wide)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
static inline wide product(wide a, wide b) {
    return (wide)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
static inline wide low_pairs(wide a, wide b) {
    return (wide)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
}
static inline wide high_pairs(wide a, wide b) {
    return (wide)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
}
#else
static inline wide product(wide a, wide b) {
    return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
}
static inline wide low_pairs(wide a, wide b) {
    return (wide){a[0], b[0]};
}
static inline wide high_pairs(wide a, wide b) {
    return (wide){a[1], b[1]};
}
#endif

/* As rng_philox4x32; upper halves hold what nobody reads. */
static inline void rounds(wide c[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        wide p0 = product(c[0], (wide){0} + 0xD2511F53u);
        wide p1 = product(c[2], (wide){0} + 0xCD9E8D57u);
        c[0] = (p1 >> 32) ^ c[1] ^ k0;
        c[1] = p1;
        c[2] = (p0 >> 32) ^ c[3] ^ k1;
        c[3] = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

#define PACK (4 * WIDE) /* elements of WIDE blocks */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "two words in 64 bits, the first one low");

/* The words of blocks [block, block + WIDE), in the elements' order. */
static inline void words_of(uint32_t words[PACK], const dropout_args *drop, uint64_t sample,
                            uint64_t block) {
    wide index = (wide){ORDER} + block, c[4], rows[2];
    c[0] = index;
    c[1] = index >> 32;
    c[2] = (wide){0} + sample;
    c[3] = (wide){0} + (sample >> 32);
    rounds(c, (uint32_t)drop->key, (uint32_t)(drop->key >> 32));
    wide first = (c[0] & 0xFFFFFFFFu) | c[1] << 32, second = (c[2] & 0xFFFFFFFFu) | c[3] << 32;
    rows[0] = low_pairs(first, second);
    rows[1] = high_pairs(first, second);
    memcpy(words, rows, PACK * sizeof *words);
}

void cpu_dropout_factors(float *factors, size_t n, const dropout_args *drop, uint64_t sample,
                         uint64_t element) {
    const uint32_t threshold = dropout_threshold(drop->p);
    const float scale = dropout_scale(drop->p);
    size_t skip = element % 4; /* of the first block */
    for (uint64_t block = element / 4; n > 0; block += WIDE) {
        uint32_t words[PACK];
        size_t count = n < PACK - skip ? n : PACK - skip;
        words_of(words, drop, sample, block);
#pragma omp simd
        for (size_t i = 0; i < count; i++) factors[i] = words[skip + i] >= threshold ? scale : 0.0f;
        factors += count, n -= count, skip = 0;
    }
}
