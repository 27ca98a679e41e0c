#include <string.h>

#include "device/cpu/attention.h"
#include "device/cpu/philox.h"
#include "device/dropout.h"

#define Q ATTENTION_QUERIES

_Static_assert(Q % PHILOX_WIDE == 0, "a row of queries is a multiple of the vector width");

typedef uint32_t narrow __attribute__((vector_size(PHILOX_WIDE * sizeof(uint32_t))));

/* words (4, Q): column r has those of block (element + r step) / 4. */
static void words_of(uint32_t words[4][Q], const dropout_args *drop, uint64_t sample,
                     uint64_t element, size_t step) {
    for (size_t r = 0; r < Q; r += PHILOX_WIDE) {
        uint64_t blocks[PHILOX_WIDE];
        philox_wide c[4];
        for (size_t j = 0; j < PHILOX_WIDE; j++) blocks[j] = (element + (r + j) * step) / 4;
        memcpy(&c[0], blocks, sizeof blocks);
        c[1] = c[0] >> 32;
        c[2] = (philox_wide){0} + sample;
        c[3] = (philox_wide){0} + (sample >> 32);
        philox_rounds(c, drop->key);
        for (int i = 0; i < 4; i++) {
            narrow row = __builtin_convertvector(c[i], narrow);
            memcpy(&words[i][r], &row, sizeof row);
        }
    }
}

/* The four keys of a column are in one Philox block if T is a multiple of four, else in two. */
void attention_factors(float factors[4][Q], const attention_mask *mask, size_t key) {
    const dropout_args *drop = mask->drop;
    const uint32_t threshold = dropout_threshold(drop->p);
    const float scale = dropout_scale(drop->p);
    uint32_t words[8][Q];
    const uint64_t element = mask->element + key;
    words_of(words, drop, mask->sample, element, mask->T);
    if (mask->T % 4) {
        words_of(words + 4, drop, mask->sample, element + 4, mask->T);
        for (size_t r = 0; r < Q; r++) {
            size_t skip = (element + r * mask->T) % 4;
            for (size_t i = 0; i < 4; i++) words[i][r] = words[i + skip][r];
        }
    }
    for (size_t i = 0; i < 4; i++)
#pragma omp simd
        for (size_t r = 0; r < Q; r++) factors[i][r] = words[i][r] >= threshold ? scale : 0.0f;
}
