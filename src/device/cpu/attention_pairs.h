/* Scores of bf16 queries and keys: products of pairs of consecutive terms, by the processor's instruction (AVX512_BF16)
 * where the build has it, at twice the rate of fp32. A product of two bf16 numbers is exact in fp32, and sums are fp32, so
 * that a score is as close as one computed from numbers converted to fp32; the instruction treats numbers below 2^-126 as
 * zero. Only the scores are computed so: probabilities and their gradients are never rounded to 16 bits.
 *
 * Invariant: a score is the sum over pairs in ascending order from both functions, so that attention with a cache has the
 * bits of attention without. Intel, "Intrinsics guide", VDPBF16PS. */
#ifndef TRINE_DEVICE_CPU_ATTENTION_PAIRS_H
#define TRINE_DEVICE_CPU_ATTENTION_PAIRS_H

#include <stdint.h>

#include "device/cpu/attention.h"

#if defined(__AVX512BF16__)
#define ATTENTION_PAIRS true
#else
#define ATTENTION_PAIRS false
#endif

/* out (rows, ATTENTION_QUERIES) = left (rows, 2 pairs) times right (pairs, ATTENTION_QUERIES), in which terms 2 n and
 * 2 n + 1 of a column are one word, the first in its low half. `step` is from row to row of left. */
void attention_pairs_set(float *out, const uint16_t *left, size_t step, const uint32_t *right,
                         size_t rows, size_t pairs);
/* p (keys) = keys (2 pairs, keys) times q (2 pairs); `step` is from term to term. */
void attention_pairs_row(float *p, const uint16_t *q, const uint16_t *keys, size_t step,
                         size_t count, size_t pairs);

#endif
