/* CUDA's fp16 for kernels on the CPU: the type and the conversions that the kernels use. Rounding is that of
 * base/half.h, to nearest, ties to even, as on a GPU: values that are too large become infinite,
 * below 2^-14 numbers are subnormal. No arithmetic is declared: kernels compute in float.
 * Names are those of the CUDA Math API Reference ("Half Precision Intrinsics", NVIDIA). */
#ifndef TRINE_EMU_CUDA_FP16_H
#define TRINE_EMU_CUDA_FP16_H

#include "base/half.h"

typedef struct __attribute__((aligned(2))) {
    unsigned short x;
} __half;

static inline __half __float2half_rn(float x) {
    return {f16_store(x)};
}

static inline float __half2float(__half x) {
    return f16_load(x.x);
}

static inline __half __ushort_as_half(unsigned short bits) {
    return {bits};
}

static inline unsigned short __half_as_ushort(__half x) {
    return x.x;
}

#endif
