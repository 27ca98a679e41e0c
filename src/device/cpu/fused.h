/* The processor's vector type, and fused multiply-add where the processor has the instruction. The
 * compiler does not contract expressions (-ffp-contract=off); code that is fused uses these functions,
 * in vectors, in remainders and in scalars alike.
 *
 * Invariant: each element of a vector is computed like a scalar, so the vector width changes no bit.
 * Cost: one instruction; two without FMA, never a call into the maths library. */
#ifndef TRINE_DEVICE_CPU_FUSED_H
#define TRINE_DEVICE_CPU_FUSED_H

#include <stddef.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* At most the width of the processor's registers, because functions return vectors. */
#if defined(__AVX512F__)
#define VEC 16
#elif defined(__AVX__)
#define VEC 8
#else
#define VEC 4
#endif

typedef float vec __attribute__((vector_size(VEC * sizeof(float))));
/* The same at any float's address; may_alias since it reads arrays of float. */
typedef float vec_at
    __attribute__((vector_size(VEC * sizeof(float)), aligned(sizeof(float)), may_alias));

/* x in every element. (0 + x would turn -0 into 0.) */
static inline vec vec_of(float x) {
    return x - (vec){0};
}

static inline vec vec_load(const float *x) {
    return *(const vec_at *)x;
}

static inline void vec_store(float *x, vec in) {
    *(vec_at *)x = in;
}

/* a * b + c */
#if defined(__AVX512F__)
static inline vec fused_vec(vec a, vec b, vec c) {
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
#elif defined(__AVX__) && defined(__FMA__)
static inline vec fused_vec(vec a, vec b, vec c) {
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#elif defined(__aarch64__)
static inline vec fused_vec(vec a, vec b, vec c) {
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
static inline vec fused_vec(vec a, vec b, vec c) {
    return a * b + c;
}
#endif

#if defined(__AVX512F__) || (defined(__AVX__) && defined(__FMA__)) || defined(__aarch64__)
static inline float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
#else
static inline float fused(float a, float b, float c) {
    return a * b + c;
}
#endif

#endif
