/* Converts sixteen 16-bit numbers at a time to fp32 and back, for loops over long arrays: half.h's
 * conversions as vector code, with the processor's instructions where available (fp16: F16C, NEON). Vectors are
 * passed by address; the compiler keeps them in registers.
 *
 * Invariant: each element equals half.h's result, except that a load may already quiet a NaN. bf16 is rounded
 * with integer operations where the build has no instruction for it (AVX512_BF16), and where one of sixteen numbers
 * is below 2^-126, because the instruction flushes it to 0. Cost: bf16 two operations per load and eight per store,
 * or three; fp16 one with F16C or NEON, else some fifteen, not vectorised. Intel 64 and IA-32 Architectures SDM,
 * volume 1, 14.4 (F16C). */
#ifndef TRINE_BASE_HALF_LINE_H
#define TRINE_BASE_HALF_LINE_H

#include "base/half.h"

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define HALF_LINE 16 /* elements */

typedef float half_line __attribute__((vector_size(HALF_LINE * sizeof(float))));
typedef uint32_t half_words __attribute__((vector_size(HALF_LINE * sizeof(uint32_t))));
/* 16-bit numbers to 32-bit words and back. `from` and `to` (HALF_LINE) need no alignment. */
#if defined(__AVX512F__)

static inline void half_widen(half_words *to, const uint16_t *from) {
    const __m256i packed = _mm256_loadu_si256((const __m256i *)(const void *)from);
    *to = (half_words)_mm512_cvtepu16_epi32(packed);
}

static inline void half_narrow(uint16_t *to, const half_words *from) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16((__m512i)*from));
}

#else

typedef uint16_t half_packed __attribute__((vector_size(HALF_LINE * sizeof(uint16_t))));

static inline void half_widen(half_words *to, const uint16_t *from) {
    half_packed packed;
    memcpy(&packed, from, sizeof packed);
    *to = __builtin_convertvector(packed, half_words);
}

static inline void half_narrow(uint16_t *to, const half_words *from) {
    const half_packed packed = __builtin_convertvector(*from, half_packed);
    memcpy(to, &packed, sizeof packed);
}

#endif

static inline void bf16_load_line(half_line *to, const uint16_t *from) {
    half_words words;
    half_widen(&words, from);
    *to = (half_line)(words << 16);
}

static inline void bf16_round_line(uint16_t *to, const half_line *from) {
    const half_words bits = (half_words)*from;
    const half_words rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const half_words is_nan = (half_words)(*from != *from);
    const half_words words = (is_nan & ((bits >> 16) | 0x40u)) | (~is_nan & rounded);
    half_narrow(to, &words);
}

#if defined(__AVX512BF16__) && defined(__AVX512DQ__)

static inline void bf16_store_line(uint16_t *to, const half_line *from) {
    enum { SUBNORMAL = 0x20 };
    if (__builtin_expect(_mm512_fpclass_ps_mask((__m512)*from, SUBNORMAL) != 0, 0)) {
        bf16_round_line(to, from);
        return;
    }
    _mm256_storeu_si256((__m256i *)(void *)to, (__m256i)_mm512_cvtneps_pbh((__m512)*from));
}

#else

static inline void bf16_store_line(uint16_t *to, const half_line *from) {
    bf16_round_line(to, from);
}

#endif

#if defined(__AVX512F__)

static inline void f16_load_line(half_line *to, const uint16_t *from) {
    *to = (half_line)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

/* All lanes by a mask: without optimisation the plain intrinsic is a macro that warns of its own mask, -1. */
static inline void f16_store_line(uint16_t *to, const half_line *from) {
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm512_maskz_cvtps_ph(0xFFFF, (__m512)*from, _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(__F16C__)

static inline void f16_load_line(half_line *to, const uint16_t *from) {
    const __m128i *packed = (const __m128i *)(const void *)from;
    const __m256 x[2] = {_mm256_cvtph_ps(_mm_loadu_si128(packed)),
                         _mm256_cvtph_ps(_mm_loadu_si128(packed + 1))};
    memcpy(to, x, sizeof x);
}

static inline void f16_store_line(uint16_t *to, const half_line *from) {
    __m128i *packed = (__m128i *)(void *)to;
    __m256 x[2];
    memcpy(x, from, sizeof x);
    _mm_storeu_si128(packed, _mm256_cvtps_ph(x[0], _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(packed + 1, _mm256_cvtps_ph(x[1], _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(__aarch64__)

static inline void f16_load_line(half_line *to, const uint16_t *from) {
    float32x4_t x[HALF_LINE / 4];
    for (int k = 0; k < HALF_LINE / 4; k++)
        x[k] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + 4 * k)));
    memcpy(to, x, sizeof x);
}

static inline void f16_store_line(uint16_t *to, const half_line *from) {
    float32x4_t x[HALF_LINE / 4];
    memcpy(x, from, sizeof x);
    for (int k = 0; k < HALF_LINE / 4; k++)
        vst1_u16(to + 4 * k, vreinterpret_u16_f16(vcvt_f16_f32(x[k])));
}

#else

static inline void f16_load_line(half_line *to, const uint16_t *from) {
    for (int k = 0; k < HALF_LINE; k++) (*to)[k] = f16_load(from[k]);
}

static inline void f16_store_line(uint16_t *to, const half_line *from) {
    for (int k = 0; k < HALF_LINE; k++) to[k] = f16_store((*from)[k]);
}

#endif

#endif
