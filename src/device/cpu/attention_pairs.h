/* attention.h's products of bf16 numbers: sums over pairs of consecutive terms, by the processor's instruction
 * (AVX512_BF16) where the build has it, at twice the rate of fp32. A product of two bf16 numbers is exact in fp32,
 * and sums are fp32, so that scores are as close as those computed from numbers converted to fp32. Probabilities and
 * their gradients are rounded to bf16 before they are multiplied, as in FlashAttention: half a unit in the last place
 * of each. The instruction treats numbers below 2^-126 as zero.
 *
 * A pair is a word: term 2 n in its low half, 2 n + 1 in its high half. Left factors are read where their terms are
 * neighbours; right factors (pairs, columns) are made of two rows (attention_pairs_of_rows) or, for scores, by
 * transposing.
 *
 * Invariant: a sum adds pairs in ascending order in all functions, so that attention with a cache has the bits of
 * attention without. Intel, "Intrinsics guide", VDPBF16PS. FlashAttention: Dao et al. 2022, arXiv:2205.14135. */
#ifndef TRINE_DEVICE_CPU_ATTENTION_PAIRS_H
#define TRINE_DEVICE_CPU_ATTENTION_PAIRS_H

#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "device/cpu/attention.h"
#include "device/cpu/fused.h"

#if defined(__AVX512BF16__)
#define ATTENTION_PAIRS true
#else
#define ATTENTION_PAIRS false
#endif

/* The left factor: terms 2 n and 2 n + 1 of a row are at[row * row_step + n * pair_step] and the number after it. */
typedef struct {
    const uint16_t *at;
    size_t row_step, pair_step;
} attention_pairs_left;

/* As attention_set and attention_add. `terms` counts numbers; that of attention_pairs_set is even. */
void attention_pairs_set(float *out, size_t out_step, attention_pairs_left left,
                         const uint32_t *right, size_t right_step, size_t rows, size_t terms,
                         size_t columns);
void attention_pairs_add(float *out, size_t out_step, attention_pairs_left left,
                         const uint32_t *right, size_t right_step, size_t rows, size_t terms,
                         size_t columns);
/* As attention_set_triangle and attention_add_triangle. */
void attention_pairs_set_triangle(float *out, size_t out_step, attention_pairs_left left,
                                  const uint32_t *right, size_t right_step, size_t rows,
                                  size_t terms, size_t columns);
void attention_pairs_add_triangle(float *out, size_t out_step, attention_pairs_left left,
                                  const uint32_t *right, size_t right_step, size_t rows,
                                  size_t terms, size_t columns);
/* out (columns) = left (terms) times right (terms, columns), plain rows; `step` is from row to row. */
void attention_pairs_row(float *out, const uint16_t *left, const uint16_t *right, size_t step,
                         size_t terms, size_t columns);

/* out (n) = the pairs of two rows; `high` NULL: zeros. */
void attention_pairs_of_rows(uint32_t *out, const uint16_t *low, const uint16_t *high, size_t n);

/* ---- Rounding ---- */

typedef uint16_t attention_halves __attribute__((vector_size(VEC * sizeof(uint16_t))));
typedef uint32_t attention_words __attribute__((vector_size(VEC * sizeof(uint32_t))));
/* The same at any word's address; may_alias since they are stored where floats were. */
typedef uint32_t attention_words_at
    __attribute__((vector_size(VEC * sizeof(uint32_t)), aligned(sizeof(uint32_t)), may_alias));

#if ATTENTION_PAIRS
static inline attention_halves attention_rounded(vec x) {
    return (attention_halves)_mm512_cvtneps_pbh((__m512)x);
}
#else
static inline attention_halves attention_rounded(vec x) {
    attention_halves out = {0};
    for (size_t i = 0; i < VEC; i++) out[i] = bf16_store(x[i]);
    return out;
}
#endif

/* pairs (VEC) = x, rounded, in the low halves and zeros in the high ones; or, if x is of the pairs' second row, in
 * the high halves. */
static inline void attention_pairs_put(uint32_t *pairs, vec x, bool second) {
    attention_words words = __builtin_convertvector(attention_rounded(x), attention_words);
    if (second) words = *(const attention_words_at *)pairs | words << 16;
    *(attention_words_at *)pairs = words;
}

/* out (VEC) = x, rounded. */
static inline void attention_pairs_round(uint16_t *out, vec x) {
    const attention_halves halves = attention_rounded(x);
    memcpy(out, &halves, sizeof halves);
}

#endif
