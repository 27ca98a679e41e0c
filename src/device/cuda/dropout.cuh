/* The elements that a dropout keeps, on the GPU: implements dropout_args of op_args.h with the same words as
 * device/dropout.h (tests/ops compare element by element).
 *
 * Invariant: a word is a function of (key, sample, element) only. Cost: one Philox4x32-10 block is 20
 * multiplications of 32 by 32 bits, some 100 instructions, and serves four neighbouring elements that
 * start at a multiple of four. */
#ifndef TRINE_DEVICE_CUDA_DROPOUT_CUH
#define TRINE_DEVICE_CUDA_DROPOUT_CUH

#include "device/cuda/kernel.cuh"

/* dropout_args in the form for kernels. */
typedef struct {
    uint64_t key, sample, first, T, width, column;
    uint32_t threshold;
    float scale;
} cuda_drop;

static inline cuda_drop cuda_drop_of(const dropout_args *args) {
    return {args->key,   args->sample, args->first,
            args->T,     args->width,  args->column,
            dropout_threshold(args->p), dropout_scale(args->p)};
}

typedef struct {
    uint32_t at[4];
} cuda_words;

/* The words of elements [4 block, 4 block + 4) of a sample (base/rng.h has the constants'
 * source). */
static inline __device__ cuda_words cuda_dropout_block(uint64_t key, uint64_t sample,
                                                       uint64_t block) {
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)sample, c3 = (uint32_t)(sample >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0, c1 = low1;
        c2 = high0 ^ c3 ^ k1, c3 = low0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

static inline __device__ float cuda_drop_factor(const cuda_drop *drop, uint32_t word) {
    return word >= drop->threshold ? drop->scale : 0.0f;
}

/* The factors of elements [first, first + 4) of sample number `sample`. Words are selected with indices
 * that are compile-time constants, so that they stay in registers. */
static inline __device__ four cuda_drop_four(const cuda_drop *drop, uint64_t sample,
                                             uint64_t first) {
    const unsigned off = (unsigned)(first % 4);
    cuda_words low = cuda_dropout_block(drop->key, sample, first / 4), high = low;
    if (off) high = cuda_dropout_block(drop->key, sample, first / 4 + 1);
    four factors;
#pragma unroll
    for (unsigned j = 0; j < 4; j++) {
        uint32_t word = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            if ((off + j) % 4 == i) word = off + j < 4 ? low.at[i] : high.at[i];
        factors.at[j] = cuda_drop_factor(drop, word);
    }
    return factors;
}

/* The factor of one element. */
static inline __device__ float cuda_drop_one(const cuda_drop *drop, uint64_t sample,
                                             uint64_t element) {
    cuda_words words = cuda_dropout_block(drop->key, sample, element / 4);
    uint32_t word = words.at[0];
#pragma unroll
    for (unsigned i = 1; i < 4; i++)
        if (element % 4 == i) word = words.at[i];
    return cuda_drop_factor(drop, word);
}

#endif
