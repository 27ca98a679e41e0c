/* The one small product that attention consists of, on rows that are packed for it as fp32, whatever
 * the device's type: nothing is rounded to 16 bits but what is stored for others. Keys stand in
 * rows and a block of ATTENTION_QUERIES queries in columns, so that the scores (keys, queries) need
 * no transposed copy of the keys, and maxima, sums and exponentials go down the columns.
 *
 *   scores     (keys, queries) = k (keys, D)          q^T (D, queries)      and v with dy
 *   values     (queries, D)    = p^T (queries, keys)  v (keys, D)           and ds with k
 *   gradients  (keys, D)      += p (keys, queries)    dy (queries, D)       and ds with q
 *
 * Every sum runs in ascending order of its index whatever the size of block or vector, so that
 * neither changes a bit of the result. Widths are padded with zeros to ATTENTION_PAD floats. Cost:
 * as many multiplications as the triangle holds, plus half a tile's worth on its diagonal. */
#ifndef TRINE_DEVICE_CPU_ATTENTION_H
#define TRINE_DEVICE_CPU_ATTENTION_H

#include "device/ops.h"

#define ATTENTION_PAD     32
#define ATTENTION_QUERIES ATTENTION_PAD /* in a block: a row of scores */

static inline size_t attention_padded(size_t n) {
    return (n + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
}

/* Where the left factor's element (row, term) lies: at[row * row_step + term * term_step]. */
typedef struct {
    const float *at;
    size_t row_step, term_step;
} attention_left;

/* out (rows, columns) = sum over n < terms of left (row, n) * right (n, columns). The steps of out
 * and right are from row to row; `columns` is a multiple of ATTENTION_PAD. */
void attention_set(float *out, size_t out_step, attention_left left, const float *right,
                   size_t right_step, size_t rows, size_t terms, size_t columns);
/* The same, added to what out holds: its values come first in the sums. */
void attention_add(float *out, size_t out_step, attention_left left, const float *right,
                   size_t right_step, size_t rows, size_t terms, size_t columns);

/* What a block's probabilities are multiplied by: row r of the block is the query whose key 0 is
 * element `element` + r T of the dropout. */
typedef struct {
    const dropout_args *drop; /* NULL: by ones, which change nothing */
    uint64_t sample, element;
    size_t T;
} attention_mask;

/* factors = those of keys [key, key + 4), a column for each query; key is a multiple of 4. drop is
 * not NULL. Numbers behind the last key or query mean nothing. */
void attention_factors(float factors[4][ATTENTION_QUERIES], const attention_mask *mask, size_t key);

#endif
