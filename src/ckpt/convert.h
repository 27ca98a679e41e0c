/* Rectangles of elements between two places, with another type, another stride, or turned over.
 * What slice.c needs to move tensors between memory and files; pure, and on the host's memory
 * only. */
#ifndef TRINE_CKPT_CONVERT_H
#define TRINE_CKPT_CONVERT_H

#include "trine.h"

/* Elements at `at`, the next row `stride` elements on. */
typedef struct {
    void *at;
    trine_dtype type; /* TRINE_F32, BF16 or F16 */
    size_t stride;
} convert_place;

/* dst (rows, cols) = src (rows, cols), rounded to dst's type (to nearest, ties to even); the bits
 * as they are where the types are the same. They do not overlap. Pure. */
void convert_copy(convert_place dst, convert_place src, size_t rows, size_t cols);

/* dst (cols, rows) = the transpose of src (rows, cols), likewise. Pure. */
void convert_turn(convert_place dst, convert_place src, size_t rows, size_t cols);

#endif
