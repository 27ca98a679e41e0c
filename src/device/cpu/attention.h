/* The small matmul that attention is made of. Its operands are packed as fp32 for every type of the
 * device, and only results are rounded to 16 bits; where the build has the instruction, bf16 has its own
 * (attention_pairs.h). Keys are rows and a tile of ATTENTION_QUERIES queries are columns, so that the
 * scores (keys, queries) need no transposed copy of the keys, and maxima, sums and exponentials run
 * down the columns.
 *
 *   scores     (keys, queries) = k (keys, D)          q^T (D, queries)      and v with dy
 *   values     (queries, D)    = p^T (queries, keys)  v (keys, D)           and ds with k
 *   gradients  (keys, D)      += p (keys, queries)    dy (queries, D)       and ds with q
 *
 * Every sum runs in ascending order of its index for every tile and vector size, so that neither
 * changes a bit of the result. Widths are padded with zeros to ATTENTION_PAD floats. Cost: the
 * multiplications of the triangle, plus those of half a tile on its diagonal. */
#ifndef TRINE_DEVICE_CPU_ATTENTION_H
#define TRINE_DEVICE_CPU_ATTENTION_H

#include "device/ops.h"

#define ATTENTION_PAD     32
#define ATTENTION_QUERIES ATTENTION_PAD /* queries of a tile: a row of scores */

static inline size_t attention_padded(size_t n) {
    return (n + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
}

/* The left factor: element (row, term) is at[row * row_step + term * term_step]. */
typedef struct {
    const float *at;
    size_t row_step, term_step;
} attention_left;

/* out (rows, columns) = sum over n < terms of left (row, n) * right (n, columns). The steps of out
 * and right are from row to row; `columns` is a multiple of ATTENTION_PAD. */
void attention_set(float *out, size_t out_step, attention_left left, const float *right,
                   size_t right_step, size_t rows, size_t terms, size_t columns);
/* The same, added to out, whose values come first in the sums. */
void attention_add(float *out, size_t out_step, attention_left left, const float *right,
                   size_t right_step, size_t rows, size_t terms, size_t columns);
/* As attention_set, with r more terms in row r. */
void attention_set_triangle(float *out, size_t out_step, attention_left left, const float *right,
                            size_t right_step, size_t rows, size_t terms, size_t columns);
/* As attention_add, without the first r terms in row r; rows <= terms. */
void attention_add_triangle(float *out, size_t out_step, attention_left left, const float *right,
                            size_t right_step, size_t rows, size_t terms, size_t columns);

/* The dropout of a tile's probabilities. For query r of the tile, key 0 is element `element` + r T of the
 * dropout. */
typedef struct {
    const dropout_args *drop; /* NULL: all factors are 1 */
    uint64_t sample, element;
    size_t T;
} attention_mask;

/* factors = the dropout factors of keys [key, key + 4), a column for each query; key is a multiple of 4.
 * drop must not be NULL. Numbers after the last key or query are meaningless. */
void attention_factors(float factors[4][ATTENTION_QUERIES], const attention_mask *mask, size_t key);

#endif
