/* The tensor core operations of src/device/cuda/mma.cuh, by shuffles and plain loops: each lane
 * fetches the registers of its rows of A and columns of B, and adds in fp32 in ascending
 * order. The hardware's order may differ; the layouts (which lane has which element) are
 * those of the PTX ISA. Thread blocks must be one-dimensional. */
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

template <mma_type TYPE>
static inline void mma(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float left[2][16], right[2][16]; /* this lane's rows of A and columns of B */
    for (int from = 0; from < 4; from++) {
        for (int r = 0; r < 4; r++)
            emu_unpack(TYPE, &left[r % 2][2 * from + r / 2 * 8],
                       __shfl_sync(0xffffffffu, a[r], 4 * g + from));
        for (int column = 0; column < 2; column++)
            for (int r = 0; r < 2; r++)
                emu_unpack(TYPE, &right[column][2 * from + 8 * r],
                           __shfl_sync(0xffffffffu, b[r], 4 * (2 * t + column) + from));
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) d[i] = fmaf(left[i / 2][k], right[i % 2][k], d[i]);
}

/* As with ldmatrix, a row is 16 bytes of shared memory at a multiple of 16, and a barrier must separate it from
 * the writes of other lanes. */
static inline void emu_load(uint32_t to[4], const uint16_t *row, bool transposed, const char *file,
                            int line) {
    emu_check_shared("row of mma_load", row, 16, 16, file, line);
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        uint16_t half[2];
        for (int n = 0; n < 2; n++) {
            int r = transposed ? 2 * t + n : g, c = transposed ? g : 2 * t + n;
            uint64_t at = __shfl_sync(0xffffffffu, (uint64_t)(uintptr_t)row, 8 * i + r);
            half[n] = ((const uint16_t *)(uintptr_t)at)[c];
        }
        to[i] = (uint32_t)half[1] << 16 | half[0];
    }
}

static inline void mma_load(uint32_t to[4], const uint16_t *row, EMU_PLACE) {
    emu_load(to, row, false, file, line);
}

static inline void mma_load_transposed(uint32_t to[4], const uint16_t *row, EMU_PLACE) {
    emu_load(to, row, true, file, line);
}

#endif
