/* Tensor core products of a warp for 16-bit types: D (16, 8) += A (16, 16) B (16, 8), A and B in bf16
 * or fp16, sums in fp32 (PTX ISA, "Matrix fragments for mma.m16n8k16"; sm_80 and later).
 *
 * With g = lane / 4 and t = lane % 4, a lane holds, with two values per register, the first in the
 * lower half:
 *   a[0..3]  rows g, g + 8, g, g + 8 of A; columns 2t, 2t + 1, in a[2], a[3] 8 more
 *   b[0..1]  column g of B; rows 2t, 2t + 1, in b[1] 8 more
 *   d[0..3]  row g of D, columns 2t, 2t + 1; row g + 8, the same
 * so D of one product, packed, is A of the next. mma_load reads four (8, 8) matrices from shared
 * memory: lane 8 i + r passes the address of row r of matrix i, 16 bytes, aligned to 16; a lane
 * gets elements (g, 2t), (g, 2t + 1) of each, or, transposed, (2t, g), (2t + 1, g).
 *
 * All lanes of a warp must call every function. The hardware determines the order of the 16 products in
 * a sum, which is the same in every run. The emulation (emu/mma.h) has the same functions and layouts. */
#ifndef TRINE_DEVICE_CUDA_MMA_CUH
#define TRINE_DEVICE_CUDA_MMA_CUH

#include <stdint.h>

#include "device/cuda/cuda.h"

typedef enum { MMA_BF16, MMA_FP16 } mma_type;

#ifdef __CUDACC__

#define MMA_PRODUCT(type)                                                                          \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                             \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                          \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <mma_type TYPE>
static __device__ inline void mma(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    if (TYPE == MMA_BF16)
        MMA_PRODUCT("bf16");
    else
        MMA_PRODUCT("f16");
}

/* Two values, each rounded to nearest, ties to even. */
template <mma_type TYPE> static __device__ inline uint32_t mma_pack(float low, float high) {
    uint32_t both;
    if (TYPE == MMA_BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/* Volatile, because shared memory changes at barriers; these order the accesses, so that no memory clobber
 * is needed. */
#define MMA_LOAD(how)                                                                              \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];"         \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                              \
                 : "r"((uint32_t)__cvta_generic_to_shared(row)))

static __device__ inline void mma_load(uint32_t to[4], const uint16_t *row) {
    MMA_LOAD("");
}

static __device__ inline void mma_load_transposed(uint32_t to[4], const uint16_t *row) {
    MMA_LOAD(".trans");
}

#else
#include "mma.h"
#endif

#endif
