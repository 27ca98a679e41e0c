/* The elements that a dropout keeps, for CPU backends: implements dropout_args of op_args.h.
 *
 * Invariant: a word is a function of (key, sample, element) only.
 * Cost: one Philox block for four neighbouring elements. */
#ifndef TRINE_DEVICE_DROPOUT_H
#define TRINE_DEVICE_DROPOUT_H

#include "base/rng.h"
#include "device/op_args.h"

/* The words of elements [4 block, 4 block + 4) of a sample. */
static inline void dropout_block(uint32_t words[4], uint64_t key, uint64_t sample, uint64_t block) {
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)sample,
                                 (uint32_t)(sample >> 32)};
    const uint32_t halves[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    rng_philox4x32(words, counter, halves);
}

/* The factor of element `element` of sample number `sample`: 0 or 1 / (1 - p). */
static inline float dropout_factor(const dropout_args *drop, uint64_t sample, uint64_t element) {
    uint32_t words[4];
    dropout_block(words, drop->key, sample, element / 4);
    return words[element % 4] >= dropout_threshold(drop->p) ? dropout_scale(drop->p) : 0.0f;
}

#endif
