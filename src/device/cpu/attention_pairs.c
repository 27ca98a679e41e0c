#include "device/cpu/attention_pairs.h"

#include <string.h>

#include "device/cpu/fused.h"

#define Q    ATTENTION_QUERIES
#define ROWS 8 /* with Q: 16 accumulators of 32 registers */

typedef uint32_t words __attribute__((vector_size(VEC * sizeof(uint32_t))));
typedef uint32_t words_at
    __attribute__((vector_size(VEC * sizeof(uint32_t)), aligned(sizeof(uint32_t)), may_alias));

/* sums + a.low b.low + a.high b.high */
#if ATTENTION_PAIRS
static inline vec add_pairs(vec sums, words a, words b) {
    return (vec)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
}
#else
static inline vec add_pairs(vec sums, words a, words b) {
    sums = fused_vec((vec)(a << 16), (vec)(b << 16), sums);
    return fused_vec((vec)(a & 0xFFFF0000u), (vec)(b & 0xFFFF0000u), sums);
}
#endif

static inline uint32_t pair_at(const uint16_t *at) {
    uint32_t pair;
    memcpy(&pair, at, sizeof pair);
    return pair;
}

/* Inlined with rows = ROWS and rows = 1. */
static inline __attribute__((always_inline)) void tile(const size_t rows, float *out,
                                                       const uint16_t *left, size_t step,
                                                       const uint32_t *right, size_t pairs) {
    vec sums[ROWS][Q / VEC];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < Q / VEC; c++) sums[r][c] = (vec){0};
    for (size_t n = 0; n < pairs; n++)
        for (size_t r = 0; r < rows; r++) {
            words a = pair_at(left + r * step + 2 * n) - (words){0};
            for (size_t c = 0; c < Q / VEC; c++)
                sums[r][c] = add_pairs(sums[r][c], a, *(const words_at *)(right + n * Q + c * VEC));
        }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < Q / VEC; c++) *(vec_at *)(out + r * Q + c * VEC) = sums[r][c];
}

void attention_pairs_set(float *out, const uint16_t *left, size_t step, const uint32_t *right,
                         size_t rows, size_t pairs) {
    size_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
        tile(ROWS, out + r * Q, left + r * step, step, right, pairs);
    for (; r < rows; r++) tile(1, out + r * Q, left + r * step, step, right, pairs);
}

/* The words of VEC keys, or of fewer, padded with zeros. */
static inline words key_words(const uint16_t *keys, size_t step, size_t count) {
    uint16_t low[VEC] = {0}, high[VEC] = {0};
    memcpy(low, keys, count * sizeof *low);
    memcpy(high, keys + step, count * sizeof *high);
    words pairs = {0};
    for (size_t i = 0; i < VEC; i++) pairs[i] = (uint32_t)low[i] | (uint32_t)high[i] << 16;
    return pairs;
}

void attention_pairs_row(float *p, const uint16_t *q, const uint16_t *keys, size_t step,
                         size_t count, size_t pairs) {
    for (size_t n = 0; n < count; n += VEC) {
        size_t own = count - n < VEC ? count - n : VEC;
        vec sums = {0};
        for (size_t i = 0; i < pairs; i++) {
            words a = pair_at(q + 2 * i) - (words){0};
            const uint16_t *at = keys + 2 * i * step + n;
            words b = own == VEC ? key_words(at, step, VEC) : key_words(at, step, own);
            sums = add_pairs(sums, a, b);
        }
        memcpy(p + n, &sums, own * sizeof *p);
    }
}
