/* CUDA's mathematical functions that the C library lacks, for kernels on the CPU. Of the approximate
 * intrinsics, __expf and __fdividef have the maximum allowed error (CUDA
 * Programming Guide, "Intrinsic Functions"), up or down depending on the argument's last bits; the others
 * (__logf, ...) are exact, so their error shows on hardware only. As in CUDA, min and max of floating-point
 * numbers return the operand that is not NaN. (CUDA Math API Reference, NVIDIA.) */
#ifndef TRINE_EMU_MATHS_H
#define TRINE_EMU_MATHS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")

/* Macros: the C library has functions of its own with these names. */
#define __exp10f(x)  powf(10.0f, (x))
#define __logf(x)    logf(x)
#define __log2f(x)   log2f(x)
#define __log10f(x)  log10f(x)
#define __sinf(x)    sinf(x)
#define __cosf(x)    cosf(x)
#define __tanhf(x)   tanhf(x)
#define __powf(x, y) powf((x), (y))

static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}

static inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}

/* x, `ulps` units in its last place away. */
static inline float emu_off(float x, float ulps, float argument) {
    uint32_t bits;
    memcpy(&bits, &argument, sizeof bits);
    bits *= 0x9E3779B9u;
    return isfinite(x) ? fmaf(x, bits >> 31 ? ulps * 0x1p-23f : -ulps * 0x1p-23f, x) : x;
}

/* 2 + floor(|1.173 x|) ulp. */
static inline float emu_expf(float x) {
    return emu_off(expf(x), 2.0f + floorf(fabsf(1.173f * x)), x);
}

/* The C library has a function of its own with this name. */
#define __expf(x) emu_expf(x)

/* 2 ulp; from 2^126 on the reciprocal of y is 0. */
static inline float __fdividef(float x, float y) {
    return fabsf(y) > 0x1p126f ? x * 0.0f : emu_off(x / y, 2.0f, x);
}

static inline float __saturatef(float x) {
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}

/* One rounding to nearest each, whatever the compiler contracts elsewhere. */
static inline float __fadd_rn(float x, float y) {
    return x + y;
}

static inline float __fsub_rn(float x, float y) {
    return x - y;
}

static inline float __fmul_rn(float x, float y) {
    return x * y;
}

static inline float __fdiv_rn(float x, float y) {
    return x / y;
}

static inline float __frcp_rn(float x) {
    return 1.0f / x;
}

static inline float __fsqrt_rn(float x) {
    return sqrtf(x);
}

static inline float __frsqrt_rn(float x) {
    return (float)(1.0 / sqrt((double)x));
}

static inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}

static inline double __dadd_rn(double x, double y) {
    return x + y;
}

static inline double __dsub_rn(double x, double y) {
    return x - y;
}

static inline double __dmul_rn(double x, double y) {
    return x * y;
}

static inline double __ddiv_rn(double x, double y) {
    return x / y;
}

static inline double __dsqrt_rn(double x) {
    return sqrt(x);
}

static inline double __fma_rn(double x, double y, double z) {
    return fma(x, y, z);
}

/* ---- The same bits as another type ----------------------------------------------------------- */

#define EMU_BITS(name, to, from)                                                                   \
    static inline to name(from value) {                                                            \
        to result;                                                                                 \
        memcpy(&result, &value, sizeof result);                                                    \
        return result;                                                                             \
    }
EMU_BITS(__float_as_int, int, float)
EMU_BITS(__float_as_uint, unsigned, float)
EMU_BITS(__int_as_float, float, int)
EMU_BITS(__uint_as_float, float, unsigned)
EMU_BITS(__double_as_longlong, long long, double)
EMU_BITS(__longlong_as_double, double, long long)
#undef EMU_BITS

#define EMU_CONVERT(name, to, from)                                                                \
    static inline to name(from value) {                                                            \
        return (to)value;                                                                          \
    }
EMU_CONVERT(__int2float_rn, float, int)
EMU_CONVERT(__uint2float_rn, float, unsigned)
EMU_CONVERT(__ll2float_rn, float, long long)
EMU_CONVERT(__ull2float_rn, float, unsigned long long)
EMU_CONVERT(__double2float_rn, float, double)
EMU_CONVERT(__int2double_rn, double, int)
EMU_CONVERT(__float2int_rz, int, float)
#undef EMU_CONVERT

static inline int __float2int_rn(float x) {
    return (int)rintf(x);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}

static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}

static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}

static inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}

static inline int __ffs(int x) {
    return __builtin_ffs(x);
}

static inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)(((uint64_t)x * y) >> 32);
}

static inline int __mul24(int x, int y) {
    return x * y;
}

static inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++) y |= ((x >> i) & 1u) << (31 - i);
    return y;
}

/* ---- min and max, as CUDA overloads them ----------------------------------------------------- */

#define EMU_MIN_MAX(result, a, b)                                                                  \
    static inline result min(a x, b y) {                                                           \
        return (result)x < (result)y ? (result)x : (result)y;                                      \
    }                                                                                              \
    static inline result max(a x, b y) {                                                           \
        return (result)x > (result)y ? (result)x : (result)y;                                      \
    }
EMU_MIN_MAX(int, int, int)
EMU_MIN_MAX(unsigned, unsigned, unsigned)
EMU_MIN_MAX(unsigned, int, unsigned)
EMU_MIN_MAX(unsigned, unsigned, int)
EMU_MIN_MAX(long, long, long)
EMU_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMU_MIN_MAX(unsigned long, long, unsigned long)
EMU_MIN_MAX(unsigned long, unsigned long, long)
EMU_MIN_MAX(long long, long long, long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, long long, unsigned long long)
EMU_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef EMU_MIN_MAX

#define EMU_MIN_MAX(type, least, greatest)                                                         \
    static inline type min(type x, type y) {                                                       \
        return least(x, y);                                                                        \
    }                                                                                              \
    static inline type max(type x, type y) {                                                       \
        return greatest(x, y);                                                                     \
    }
EMU_MIN_MAX(float, fminf, fmaxf)
EMU_MIN_MAX(double, fmin, fmax)
#undef EMU_MIN_MAX

static inline double min(float x, double y) {
    return fmin((double)x, y);
}

static inline double max(float x, double y) {
    return fmax((double)x, y);
}

static inline double min(double x, float y) {
    return fmin(x, (double)y);
}

static inline double max(double x, float y) {
    return fmax(x, (double)y);
}


static inline unsigned umin(unsigned x, unsigned y) {
    return min(x, y);
}

static inline unsigned umax(unsigned x, unsigned y) {
    return max(x, y);
}

#endif
