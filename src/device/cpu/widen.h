/* Floats as doubles, four at a time: one instruction where the processor has AVX. (GCC converts a vector of four in
 * halves, and moves them through memory.) */
#ifndef TRINE_DEVICE_CPU_WIDEN_H
#define TRINE_DEVICE_CPU_WIDEN_H

#if defined(__AVX__)
#include <immintrin.h>
#endif

#define WIDE 4
typedef double wide64 __attribute__((vector_size(WIDE * sizeof(double))));

/* *to = x (WIDE), at any float's address. (By address, because not every processor can return the type.) */
#if defined(__AVX__)
static inline void widen(wide64 *to, const float *x) {
    *to = (wide64)_mm256_cvtps_pd(_mm_loadu_ps(x));
}
#else
static inline void widen(wide64 *to, const float *x) {
    *to = (wide64){(double)x[0], (double)x[1], (double)x[2], (double)x[3]};
}
#endif

#endif
