/* The tensor core operations of src/device/cuda/mma.cuh, by one exchange each and plain loops: each lane reads
 * what the lanes with its rows of A and columns of B have, and adds in fp32 in ascending order. The hardware's order
 * may differ; the layouts (which lane has which element) are those of the PTX ISA. Thread blocks must be
 * one-dimensional. */
#ifndef TRINE_EMU_MMA_H
#define TRINE_EMU_MMA_H

#include <math.h>
#include <stdint.h>

#include "base/half.h"
#include "cuda_runtime.h"

static inline float emu_widen(mma_type type, uint16_t bits) {
    return type == MMA_BF16 ? bf16_load(bits) : f16_load(bits);
}

/* To nearest, ties to even. */
static inline uint16_t emu_narrow(mma_type type, float x) {
    return type == MMA_BF16 ? bf16_store(x) : f16_store(x);
}

template <mma_type TYPE> static inline uint32_t mma_pack(float low, float high) {
    return (uint32_t)emu_narrow(TYPE, high) << 16 | emu_narrow(TYPE, low);
}

static inline void emu_unpack(mma_type type, float to[2], uint32_t both) {
    to[0] = emu_widen(type, (uint16_t)both), to[1] = emu_widen(type, (uint16_t)(both >> 16));
}

/* What the 32 lanes of the warp offer, once all of them have. There are two places for it: a lane that is ahead waits
 * in the next exchange until the others have read this one's. */
template <typename T> static inline const T *emu_offers(const T &own) {
    static T offers[2][1024];
    static bool second[1024];
    const unsigned thread = threadIdx.x;
    T *all = offers[second[thread]];
    second[thread] = !second[thread];
    all[thread] = own;
    __shfl_sync(0xffffffffu, 0, 0);
    return all + thread / 32 * 32;
}

/* A lane's elements as floats: of its two rows of A, and of its column of B, two neighbours and the two 8 further. */
struct emu_fragments {
    float a[2][2][2], b[2][2];
};

template <mma_type TYPE>
static inline void mma(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    emu_fragments own;
    for (int r = 0; r < 4; r++) emu_unpack(TYPE, own.a[r % 2][r / 2], a[r]);
    for (int r = 0; r < 2; r++) emu_unpack(TYPE, own.b[r], b[r]);
    const emu_fragments *all = emu_offers(own), *row = all + 4 * g, *column = all + 8 * t;
    for (int k = 0; k < 16; k++) {
        const int from = k % 8 / 2, half = k / 8, n = k % 2;
        for (int i = 0; i < 4; i++)
            d[i] = fmaf(row[from].a[i / 2][half][n], column[4 * (i % 2) + from].b[half][n], d[i]);
    }
}

/* As with ldmatrix, a row is 16 bytes of shared memory at a multiple of 16, and a barrier must separate it from
 * the writes of other lanes. */
static inline void emu_load(uint32_t to[4], const uint16_t *row, bool transposed, const char *file,
                            int line) {
    emu_check_shared("row of mma_load", row, 16, 16, file, line);
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint16_t *const *rows = emu_offers(row);
    emu_row_begin(row, 16);
    for (int i = 0; i < 4; i++) {
        uint16_t half[2];
        for (int n = 0; n < 2; n++) {
            int r = transposed ? 2 * t + n : g, c = transposed ? g : 2 * t + n;
            half[n] = rows[8 * i + r][c];
        }
        to[i] = (uint32_t)half[1] << 16 | half[0];
    }
    emu_row_end();
}

static inline void mma_load(uint32_t to[4], const uint16_t *row, EMU_PLACE) {
    emu_load(to, row, false, file, line);
}

static inline void mma_load_transposed(uint32_t to[4], const uint16_t *row, EMU_PLACE) {
    emu_load(to, row, true, file, line);
}

#endif
