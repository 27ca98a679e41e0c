/* Decoding: runs the model on a few new rows of one sequence, with the keys and values of its earlier rows in caches.
 * The lists are those of gpt_forward in an evaluation: no dropout, nothing is kept for a backward pass, and the
 * residual stream is updated in place.
 *
 * Invariant: rows [past, past + n) are equal to those of an evaluation of all rows, except for the rounding of
 * matmuls, which depends on the number of rows; attention has the same bits on CPUs.
 * Cost of n rows: 2 flops per parameter and row, and one read of the past keys and values; for few
 * rows the time is one pass over the weights in memory. Over tp: what gpt_forward sends, for n rows.
 * Pope et al., "Efficiently scaling transformer inference", MLSys 2023. */
#ifndef TRINE_MODEL_DECODE_H
#define TRINE_MODEL_DECODE_H

#include "model/gpt.h"

/* The caches of a unit's layers, for all positions; NULLs for layers without a cache. */
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

/* The lists and scratch buffers; the contents of a buffer are not used after the call. */
typedef struct {
    size_t rows, head_rows; /* most rows of a call; most rows of a call of the head */
    decode_unit units[UNIT_KINDS];
    void *buffers[LIST_BUFFERS];
    void *aux;       /* the largest aux of a layer */
    void *workspace; /* the largest that any kind of layer requires */
    float *rope;     /* rotary positions, written once (rope_write); NULL: no layer reads them */
    void *logits;    /* (head_rows, Vp/tp) */
    void *all;       /* (tp, n, Vp/tp) in a call of n rows, n <= head_rows */
} decode_scratch;

/* The arguments of every unit; everything in it is borrowed. shape->B is 1. */
typedef struct {
    device *dev;
    const tp_region *tp; /* without sequence parallelism */
    const gpt_shape *shape;
    decode_scratch scratch;
} decode_run;

/* Declares or takes the scratch of a rank, for calls of at most `rows` rows; `head_rows` > 0 if the
 * rank has the head. Not collective. */
void decode_scratch_take(arena *a, const gpt_shape *s, const device *d, size_t rows,
                         size_t head_rows, decode_scratch *out);
/* Declares or takes a unit's caches, of shape->T positions. Not collective. */
void decode_cache_take(arena *a, const gpt_shape *s, const device *d, int unit, decode_cache *out);
/* Declares or takes a residual stream (rows, C), which groups send and sum. Not collective. */
void *decode_stream_take(arena *a, const gpt_shape *s, const device *d, size_t rows);

/* x (n, C) = unit(x), at positions past, past + 1, ... with past + n <= T; the new rows are appended to the caches.
 * An embedding reads `tokens` (n) instead of x; for other units tokens is NULL. A head leaves x unchanged and sets
 * scratch.all (tp, n, Vp/tp), with n <= head_rows. Collective over: tp. */
trine_status decode_rows(const decode_run *r, const gpt_unit *u, const decode_cache *cache, void *x,
                         const int32_t *tokens, size_t past, size_t n);

#endif
