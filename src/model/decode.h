/* The model over a few new rows of one sequence, whose earlier rows live on in caches, attention's keys and values:
 * what generation is made of. The same lists as gpt_forward's, in an evaluation: no dropout, nothing is kept for a
 * backward pass, and the residual stream is worked on in place.
 *
 * Invariant: rows [past, past + n) are what an evaluation of all rows gives there, but for the
 * rounding of products whose number of rows is another; attention has the same bits on processors.
 * Cost of n rows: 2 flops a parameter and row, and the keys and values of the past read once; for
 * few rows that is a pass over the weights in memory. Over tp what gpt_forward sends, of n rows.
 * Pope et al., "Efficiently scaling transformer inference", MLSys 2023. */
#ifndef TRINE_MODEL_DECODE_H
#define TRINE_MODEL_DECODE_H

#include "model/gpt.h"

/* What a unit's layers keep of all positions; NULLs where a layer keeps nothing. */
typedef struct {
    void *halves[LIST_LAYERS][2];
} decode_cache;

/* A kind of unit: its list, and the buffer of each value; -1: the stream x. */
typedef struct {
    unit_list list;
    int place[LIST_VALUES];
    list_buffer buffers[LIST_BUFFERS];
    int buffer_count;
} decode_unit;

/* The lists, and buffers that one call uses and none needs afterwards. */
typedef struct {
    size_t rows, head_rows; /* that a call may have; of the head */
    decode_unit units[UNIT_KINDS];
    void *buffers[LIST_BUFFERS];
    void *aux;       /* the largest that a layer has beside its output */
    void *workspace; /* the largest that a kind of layer asks for */
    void *logits;    /* (head_rows, Vp/tp) */
    void *all;       /* (tp, head_rows, Vp/tp), behind each other for the rows there are */
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
/* Declares or takes a unit's caches, of shape->T positions. Not collective. */
void decode_cache_take(arena *a, const gpt_shape *s, const device *d, int unit, decode_cache *out);
/* Declares or takes (rows, C), which groups send and add up. Not collective. */
void *decode_stream_take(arena *a, const gpt_shape *s, const device *d, size_t rows);

/* x (n, C) = unit(x), at positions past, past + 1, ... with past + n <= T; the caches take the new rows. An embedding
 * reads `tokens` (n) instead of x; others take NULL. A head leaves x as it is and fills scratch.all (tp, n, Vp/tp), with
 * n <= head_rows. Collective over: tp. */
trine_status decode_rows(const decode_run *r, const gpt_unit *u, const decode_cache *cache, void *x,
                         const int32_t *tokens, size_t past, size_t n);

#endif
