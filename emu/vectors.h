/* CUDA's vector types, with CUDA's alignment: a float4 is read as 16 bytes at once, and must be at a multiple of
 * 16 on a GPU. The emulated object is compiled with a check of every access (EMU_CHECKS in the Makefile), so a
 * misaligned access is a fault here, too. */
#ifndef TRINE_EMU_VECTORS_H
#define TRINE_EMU_VECTORS_H

#define EMU_VECTORS(name, type)                                                                    \
    typedef struct name##1 {                                                                       \
        type x;                                                                                    \
    } name##1;                                                                                     \
    typedef struct __attribute__((aligned(2 * sizeof(type)))) name##2 {                            \
        type x, y;                                                                                 \
    } name##2;                                                                                     \
    typedef struct name##3 {                                                                       \
        type x, y, z;                                                                              \
    } name##3;                                                                                     \
    static inline name##1 make_##name##1(type x) {                                                 \
        name##1 v = {x};                                                                           \
        return v;                                                                                  \
    }                                                                                              \
    static inline name##2 make_##name##2(type x, type y) {                                         \
        name##2 v = {x, y};                                                                        \
        return v;                                                                                  \
    }                                                                                              \
    static inline name##3 make_##name##3(type x, type y, type z) {                                 \
        name##3 v = {x, y, z};                                                                     \
        return v;                                                                                  \
    }

/* Vectors of four: at most 16 bytes at once. */
#define EMU_FOUR(name, type)                                                                       \
    typedef struct __attribute__((aligned(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16)))         \
    name##4 {                                                                                      \
        type x, y, z, w;                                                                           \
    } name##4;                                                                                     \
    static inline name##4 make_##name##4(type x, type y, type z, type w) {                         \
        name##4 v = {x, y, z, w};                                                                  \
        return v;                                                                                  \
    }

EMU_VECTORS(char, signed char)
EMU_VECTORS(uchar, unsigned char)
EMU_VECTORS(short, short)
EMU_VECTORS(ushort, unsigned short)
EMU_VECTORS(int, int)
EMU_VECTORS(uint, unsigned)
EMU_VECTORS(longlong, long long)
EMU_VECTORS(ulonglong, unsigned long long)
EMU_VECTORS(float, float)
EMU_VECTORS(double, double)
EMU_FOUR(char, signed char)
EMU_FOUR(uchar, unsigned char)
EMU_FOUR(short, short)
EMU_FOUR(ushort, unsigned short)
EMU_FOUR(int, int)
EMU_FOUR(uint, unsigned)
EMU_FOUR(longlong, long long)
EMU_FOUR(ulonglong, unsigned long long)
EMU_FOUR(float, float)
EMU_FOUR(double, double)

typedef struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
#endif
} dim3;

#endif
