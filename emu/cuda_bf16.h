/* CUDA's bf16 for kernels on the CPU: the type and the conversions that the kernels use. Rounding is that of
 * base/half.h, to nearest, ties to even, as on a GPU; a NaN keeps its upper
 * bits here, and becomes 0x7fff there. No arithmetic is declared: kernels compute in float.
 * Names are those of the CUDA Math API Reference ("Bfloat16 Precision Intrinsics", NVIDIA). */
#ifndef TRINE_EMU_CUDA_BF16_H
#define TRINE_EMU_CUDA_BF16_H

#include "base/half.h"

typedef struct __attribute__((aligned(2))) {
    unsigned short x;
} __nv_bfloat16;

static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    return {bf16_store(x)};
}

static inline float __bfloat162float(__nv_bfloat16 x) {
    return bf16_load(x.x);
}

static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return {bits};
}

static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
    return x.x;
}

#endif
