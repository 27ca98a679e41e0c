#include "ckpt/convert.h"

#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"

/* Elements in files may be unaligned. */
typedef uint32_t __attribute__((aligned(1), may_alias)) bits32;
typedef uint16_t __attribute__((aligned(1), may_alias)) bits16;

/* One element; the types are constants after inlining. Equal types copy bits: a NaN keeps its
 * payload. */
static inline __attribute__((always_inline)) void
move(void *dst, trine_dtype to, size_t i, const void *src, trine_dtype from, size_t j) {
    if (to == from && to == TRINE_F32) {
        ((bits32 *)dst)[i] = ((const bits32 *)src)[j];
    } else if (to == from) {
        ((bits16 *)dst)[i] = ((const bits16 *)src)[j];
    } else {
        float x = from == TRINE_F32    ? half_float(((const bits32 *)src)[j])
                  : from == TRINE_BF16 ? bf16_load(((const bits16 *)src)[j])
                                       : f16_load(((const bits16 *)src)[j]);
        if (to == TRINE_F32) ((bits32 *)dst)[i] = half_bits(x);
        if (to == TRINE_BF16) ((bits16 *)dst)[i] = bf16_store(x);
        if (to == TRINE_F16) ((bits16 *)dst)[i] = f16_store(x);
    }
}

/* Transposes by tiles in a buffer with a gap behind each row: the rows of a tile are a full row of
 * the matrix apart on either side, often a power of two, so they would map to the same few cache
 * sets. */
#define TILE   ((size_t)64)
#define SQUARE ((size_t)8) /* transposed in registers */
#define PITCH  (TILE + SQUARE)

static inline size_t below(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline __attribute__((always_inline)) void copy(convert_place dst, trine_dtype to,
                                                       convert_place src, trine_dtype from,
                                                       size_t rows, size_t cols) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            move(dst.at, to, r * dst.stride + c, src.at, from, r * src.stride + c);
}

/* dst (SQUARE rows, `stride` elements apart) = the transpose of src (SQUARE rows, PITCH apart).
 * Interleaving rows i and i + 4 three times makes row i column i. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define IN_REGISTERS
#endif
#endif
#ifdef IN_REGISTERS
#define LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define SIDE_BY_SIDE(to, from)                                                                     \
    for (size_t i = 0; i < SQUARE / 2; i++) {                                                      \
        to[2 * i] = LOW(from[i], from[i + SQUARE / 2]);                                            \
        to[2 * i + 1] = HIGH(from[i], from[i + SQUARE / 2]);                                       \
    }
#define TRANSPOSE_SQUARE(name, element)                                                            \
    typedef element name##_row __attribute__((vector_size(SQUARE * sizeof(element))));             \
    static inline void name(char *dst, size_t stride, const element *src) {                        \
        name##_row x[SQUARE], y[SQUARE];                                                           \
        for (size_t i = 0; i < SQUARE; i++) memcpy(&x[i], src + i * PITCH, sizeof x[i]);           \
        SIDE_BY_SIDE(y, x)                                                                         \
        SIDE_BY_SIDE(x, y)                                                                         \
        SIDE_BY_SIDE(y, x)                                                                         \
        for (size_t i = 0; i < SQUARE; i++)                                                        \
            memcpy(dst + i * stride * sizeof(element), &y[i], sizeof y[i]);                        \
    }
#else
#define TRANSPOSE_SQUARE(name, element)                                                            \
    static inline void name(char *dst, size_t stride, const element *src) {                        \
        for (size_t i = 0; i < SQUARE; i++)                                                        \
            for (size_t j = 0; j < SQUARE; j++)                                                    \
                memcpy(dst + (i * stride + j) * sizeof(element), src + j * PITCH + i,              \
                       sizeof(element));                                                           \
    }
#endif
TRANSPOSE_SQUARE(transpose_square32, uint32_t)
TRANSPOSE_SQUARE(transpose_square16, uint16_t)

static inline __attribute__((always_inline)) void transpose_square(char *dst, size_t at,
                                                                   size_t stride, const void *tile,
                                                                   size_t from, trine_dtype type) {
    if (type == TRINE_F32)
        transpose_square32(dst + at * sizeof(uint32_t), stride, (const uint32_t *)tile + from);
    else
        transpose_square16(dst + at * sizeof(uint16_t), stride, (const uint16_t *)tile + from);
}

/* dst (width, height) = the transpose of a tile (height, width). */
static inline __attribute__((always_inline)) void transpose_tile(void *dst, size_t at,
                                                                 size_t stride, const void *tile,
                                                                 trine_dtype type, size_t height,
                                                                 size_t width) {
    size_t h = height / SQUARE * SQUARE, w = width / SQUARE * SQUARE;
    for (size_t c = 0; c < w; c += SQUARE)
        for (size_t r = 0; r < h; r += SQUARE)
            transpose_square(dst, at + c * stride + r, stride, tile, r * PITCH + c, type);
    for (size_t c = 0; c < width; c++)
        for (size_t r = c < w ? h : 0; r < height; r++)
            move(dst, type, at + c * stride + r, tile, type, r * PITCH + c);
}

static inline __attribute__((always_inline)) void transpose(convert_place dst, trine_dtype to,
                                                            convert_place src, trine_dtype from,
                                                            size_t rows, size_t cols) {
    bits32 tile[TILE * PITCH];
    for (size_t r0 = 0; r0 < rows; r0 += TILE)
        for (size_t c0 = 0; c0 < cols; c0 += TILE) {
            size_t height = below(TILE, rows - r0), width = below(TILE, cols - c0);
            for (size_t r = 0; r < height; r++)
                for (size_t c = 0; c < width; c++)
                    move(tile, to, r * PITCH + c, src.at, from, (r0 + r) * src.stride + c0 + c);
            transpose_tile(dst.at, c0 * dst.stride + r0, dst.stride, tile, to, height, width);
        }
}

/* A separate loop for each pair of types. */
#define PAIR(to, from) ((int)(to)*16 + (int)(from))
#define CASE(what, to, from)                                                                       \
    case PAIR(to, from):                                                                           \
        what(dst, to, src, from, rows, cols);                                                      \
        return;
#define CASES(what)                                                                                \
    CASE(what, TRINE_F32, TRINE_F32)                                                               \
    CASE(what, TRINE_F32, TRINE_BF16)                                                              \
    CASE(what, TRINE_F32, TRINE_F16)                                                               \
    CASE(what, TRINE_BF16, TRINE_F32)                                                              \
    CASE(what, TRINE_BF16, TRINE_BF16)                                                             \
    CASE(what, TRINE_BF16, TRINE_F16)                                                              \
    CASE(what, TRINE_F16, TRINE_F32)                                                               \
    CASE(what, TRINE_F16, TRINE_BF16)                                                              \
    CASE(what, TRINE_F16, TRINE_F16)

void convert_copy(convert_place dst, convert_place src, size_t rows, size_t cols) {
    switch (PAIR(dst.type, src.type)) { CASES(copy) }
    ASSERT(false);
}

void convert_transpose(convert_place dst, convert_place src, size_t rows, size_t cols) {
    switch (PAIR(dst.type, src.type)) { CASES(transpose) }
    ASSERT(false);
}
