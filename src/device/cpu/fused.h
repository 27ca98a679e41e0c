/* The processor's vector, and a product added in one rounding where the processor has such an
 * instruction. Nothing is contracted by the compiler (-ffp-contract=off); what is fused says so, by
 * these names, and is fused in vectors, in remainders and in single numbers alike.
 *
 * Invariant: each element of a vector is computed as a single number would be, so the width changes
 * no bit. Cost: one instruction; without it two, never a call into the maths library. */
#ifndef TRINE_DEVICE_CPU_FUSED_H
#define TRINE_DEVICE_CPU_FUSED_H

#include <stddef.h>

#if defined(__AVX__)
#include <immintrin.h>
#endif

/* Not wider than the processor's registers: a function may not return what does not fit. */
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

/* x in every element. Not 0 + x, which would have to turn -0 into 0. */
static inline vec vec_of(float x) {
    return x - (vec){0};
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
#else
static inline vec fused_vec(vec a, vec b, vec c) {
    return a * b + c;
}
#endif

#if defined(__AVX512F__) || (defined(__AVX__) && defined(__FMA__))
static inline float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
#else
static inline float fused(float a, float b, float c) {
    return a * b + c;
}
#endif

#endif
