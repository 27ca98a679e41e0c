/* Tensor parallelism inside the layer (Shoeybi et al., "Megatron-LM", 2019, section 3). A
 * column-parallel linear splits the output features, a row-parallel one the input features; between
 * the two nothing is sent. All communication sits in one conjugate pair:
 *
 *   enter   forward: identity,            backward: all-reduce     (Megatron's f)
 *   leave   forward: all-reduce,          backward: identity       (Megatron's g)
 *
 * Sequence parallelism will be a property of this pair, not of the layers that use it. The group is
 * known here and nowhere above. A group of one costs nothing: its all-reduce is self.c's.
 *
 * Invariant: what is SPLIT_NONE is computed bit-identically on every tp rank, so that its gradient
 * needs no sum over tp. Cost per half-block and direction: one all-reduce of (N, C). */
#ifndef TRINE_TP_TP_H
#define TRINE_TP_TP_H

#include "device/ops.h"
#include "trine.h"

typedef struct {
    trine_comm *comm; /* the tp group */
    device *dev;
} tp_region;

/* A parameter and its gradient, pointed at memory by whoever runs the layer. */
typedef struct {
    const void *w; /* the device's compute type */
    void *dw;      /* the device's type of gradients */
    grad_mode mode; /* whether the next backward pass sets dw or adds to it: `(+)=` below */
} param;

/* As held here: column-parallel weight (O/tp, I), bias (O/tp); row-parallel weight (O, I/tp), bias
 * (O), the same on every tp rank. bias.w and bias.dw NULL: no bias. */
typedef struct {
    param weight, bias;
} tp_linear;

/* dx or y (count) = sum over tp, in place, in rank order. Collective over: tp. */
trine_status tp_enter_backward(const tp_region *r, void *dx, size_t count);
trine_status tp_leave_forward(const tp_region *r, void *y, size_t count);

/* y (N, O/tp) = x (N, I) w^T + bias. N rows; O and I are the unsharded layer's sizes, tp divides
 * the split one. Not collective (enter is the identity). */
trine_status tp_column_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                               size_t N, size_t O, size_t I);
/* dx (N, I) = sum over tp of dy (N, O/tp) w; dweight, dbias (+)=. Collective over: tp. */
trine_status tp_column_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                const void *x, size_t N, size_t O, size_t I);
/* y (N, O) = (sum over tp of x (N, I/tp) w^T + bias) + residual. Collective over: tp. */
trine_status tp_row_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                            const void *residual, size_t N, size_t O, size_t I);
/* dx (N, I/tp) = dy (N, O) w; dweight, dbias (+)=. Not collective. */
trine_status tp_row_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                             const void *x, size_t N, size_t O, size_t I);

/* Rows of the vocabulary on a tp rank: padded to a multiple of tp; `valid` are real. Pure. */
typedef struct {
    size_t first, rows, valid;
} tp_vocab;
tp_vocab tp_vocab_of(size_t V, int tp, int tp_rank);

/* x (N, C) = table[tokens]: each rank looks up its own rows, then leave. Collective over: tp. */
trine_status tp_embedding_forward(const tp_region *r, void *x, const void *table,
                                  const int32_t *tokens, size_t N, size_t C, size_t V);
/* table's gradient (rows, C) (+)= rows of dx (N, C), for the tokens that this rank holds; padding
 * rows are never touched. Not collective. */
trine_status tp_embedding_backward(const tp_region *r, const param *table, const void *dx,
                                   const int32_t *tokens, size_t N, size_t C, size_t V);

/* *loss += scale * sum of the cross-entropies of logits (N, Vp/tp), without gathering them: one
 * all-reduce of the maxima, one of {denominator, target logit}. max (N), sums (N, 2) are kept for
 * the backward pass. Collective over: tp. */
trine_status tp_xent_forward(const tp_region *r, double *loss, float *max, float *sums,
                             const void *logits, const int32_t *targets, double scale, size_t N,
                             size_t V);
/* logits becomes its gradient. Not collective. */
trine_status tp_xent_backward(const tp_region *r, void *logits, const float *max, const float *sums,
                              const int32_t *targets, double scale, size_t N, size_t V);

#endif
