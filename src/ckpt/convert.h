/* Copies rectangles of elements, converting type and stride, optionally transposed. slice.c uses it to move
 * tensors between memory and files. Pure; host memory only. */
#ifndef TRINE_CKPT_CONVERT_H
#define TRINE_CKPT_CONVERT_H

#include "trine_types.h"

/* Elements at `at`; rows are `stride` elements apart. */
typedef struct {
    void *at;
    trine_dtype type; /* TRINE_F32, BF16 or F16 */
    size_t stride;
} convert_place;

/* dst (rows, cols) = src (rows, cols), rounded to dst's type (to nearest, ties to even); bits are unchanged
 * if the types are equal. dst and src do not overlap. Pure. */
void convert_copy(convert_place dst, convert_place src, size_t rows, size_t cols);

/* dst (cols, rows) = the transpose of src (rows, cols), likewise. Pure. */
void convert_transpose(convert_place dst, convert_place src, size_t rows, size_t cols);

#endif
