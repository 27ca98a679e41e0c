/* The model over a few new rows of one sequence, whose earlier rows live on as each block's keys
 * and values: what generation is made of. The same layers as gpt_forward's (tp/tp.h, device/ops.h),
 * in an evaluation: no dropout, nothing is kept for a backward pass, and the residual stream is
 * worked on in place.
 *
 * Invariant: rows [past, past + n) are what an evaluation of all rows gives there, but for the
 * rounding of products whose number of rows is another; attention has the same bits on processors.
 * Cost of n rows: 2 flops a parameter and row, and the keys and values of the past read once; for
 * few rows that is a pass over the weights in memory. Over tp two all-reduces of (n, C) a block.
 * Pope et al., "Efficiently scaling transformer inference", MLSys 2023. */
#ifndef TRINE_MODEL_DECODE_H
#define TRINE_MODEL_DECODE_H

#include "model/gpt.h"

/* What a block keeps of all positions, for this rank's heads: (H/tp, D, T), (H/tp, T, D). */
typedef struct {
    void *keys, *values;
} decode_cache;

/* Buffers that one call uses and none needs afterwards. */
typedef struct {
    size_t rows, head_rows; /* that a call may have; of the head */
    void *norm;             /* (rows, C) */
    float *stat;            /* (rows, 2) */
    void *qkv, *att;        /* (rows, 3C/tp), (rows, C/tp) */
    void *mid;              /* (rows, C) */
    void *hidden;           /* (rows, F/tp) */
    void *attention;        /* ops->attention_workspace bytes */
    void *logits;           /* (head_rows, Vp/tp) */
    void *all;              /* (tp, head_rows, Vp/tp), behind each other for the rows there are */
} decode_scratch;

/* What the units run on; everything in it is borrowed. shape->B is 1. */
typedef struct {
    device *dev;
    const tp_region *tp; /* without sequence parallelism */
    const gpt_shape *shape;
    decode_scratch scratch;
} decode_run;

/* Declares or takes the scratch of a rank, for calls of at most `rows` rows; `head_rows` > 0 where
 * it has the head. Not collective. */
void decode_scratch_take(arena *a, const gpt_shape *s, const device *d, size_t rows,
                         size_t head_rows, decode_scratch *out);
/* Declares or takes a block's cache, of shape->T positions. Not collective. */
void decode_cache_take(arena *a, const gpt_shape *s, const device *d, decode_cache *out);
/* Declares or takes (rows, C), which groups send and add up. Not collective. */
void *decode_stream_take(arena *a, const gpt_shape *s, const device *d, size_t rows);

/* x (n, C) = token rows + positions past, past + 1, ...; past + n <= T. Collective over: tp. */
trine_status decode_embedding(const decode_run *r, const gpt_embedding *e, void *x,
                              const int32_t *tokens, size_t past, size_t n);
/* x (n, C) = block(x), and its keys and values join the cache. Collective over: tp. */
trine_status decode_block(const decode_run *r, const gpt_block *b, const decode_cache *cache,
                          void *x, size_t past, size_t n);
/* scratch.all (tp, n, Vp/tp) = logits of x (n, C), n <= head_rows, which stays as it is. Collective
 * over: tp. */
trine_status decode_head(const decode_run *r, const gpt_head *h, const void *x, size_t n);

#endif
