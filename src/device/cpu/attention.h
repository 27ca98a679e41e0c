/* The three small matmuls of attention, on rows that are packed for them: a block of up to
 * ATTENTION_ROWS queries against many keys. Every sum runs in ascending order of its index whatever
 * the size of block or vector, so that neither changes a bit of the result.
 *
 * Packed widths are padded with zeros to ATTENTION_PAD floats. Cost: as many multiplications as the
 * triangle holds, plus at most a block's worth on its diagonal. */
#ifndef TRINE_DEVICE_CPU_ATTENTION_H
#define TRINE_DEVICE_CPU_ATTENTION_H

#include <stddef.h>

#define ATTENTION_ROWS 8
#define ATTENTION_PAD  32

static inline size_t attention_padded(size_t n) {
    return (n + ATTENTION_PAD - 1) / ATTENTION_PAD * ATTENTION_PAD;
}

/* out (rows, columns' padded) = a (rows, D) b^T (D, columns' padded), for the first `columns`
 * columns rounded up to ATTENTION_PAD; `wide` is the padded width of out and of b^T. */
void attention_scores(float *out, const float *a, size_t a_stride, const float *b_transposed,
                      size_t rows, size_t columns, size_t D, size_t wide);

/* out (rows, wide) = p a of the causal triangle: row r of out sums p[r][s] * a[s] over
 * s <= diagonal + r. p (rows, p_stride), a (.., wide). */
void attention_combine(float *out, const float *p, size_t p_stride, const float *a, size_t rows,
                       size_t diagonal, size_t wide);

/* out[s] (.., wide) += p^T a of the causal triangle: p[r][s] * a[r] for the rows r with
 * s <= diagonal + r. p (rows, p_stride), a (rows, wide). */
void attention_spread(float *out, const float *p, size_t p_stride, const float *a, size_t rows,
                      size_t diagonal, size_t wide);

#endif
