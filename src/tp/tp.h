/* Tensor parallelism inside the layer (Shoeybi et al., "Megatron-LM", 2019, section 3). A
 * column-parallel linear splits the output features, a row-parallel one the input features; between
 * the two nothing is sent. All communication sits in one conjugate pair:
 *
 *   enter   forward: identity,            backward: all-reduce        (Megatron's f)
 *   leave   forward: all-reduce,          backward: identity          (Megatron's g)
 *
 * With sequence parallelism (Korthikanti et al., "Reducing activation recomputation in large
 * transformer models", MLSys 2023, section 4.2.2) a rank has only its share of the rows outside of
 * that pair, [rank N/tp, (rank + 1) N/tp) of the micro-batch's N = B T, and the pair is
 *
 *   enter   forward: all-gather,          backward: reduce-scatter    (g of that paper)
 *   leave   forward: reduce-scatter,      backward: all-gather        (its g bar)
 *
 * at the traffic of an all-reduce each. What enters is kept as a share and gathered once more for the
 * weight's gradient. It is a property of the region, not of the layers that use it: a linear is given
 * the sizes of the whole. The group is known here and nowhere above. A group of one costs nothing:
 * its collectives are self.c's.
 *
 * Invariant: what is SPLIT_NONE is computed bit-identically on every tp rank, or marked `tp_partial`
 * (core/flat.h): made from own rows, so that its gradients are addends. Either form gives an
 * activation the same bits. Cost per half-block and direction: one all-reduce of (N, C), or a
 * reduce-scatter and an all-gather; backwards one all-gather more. */
#ifndef TRINE_TP_TP_H
#define TRINE_TP_TP_H

#include "device/ops.h"
#include "trine.h"

typedef struct {
    trine_comm *comm; /* the tp group */
    device *dev;
    void *whole; /* sequence parallelism: room for (N, C) of the widest that enters or leaves, which
                    one call uses and none needs afterwards. NULL: without, or tp 1 */
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

/* Rows [first, first + count) of N that a rank has outside of the pair; all without sequence
 * parallelism. Called R below. Pure. */
typedef struct {
    size_t first, count;
} tp_rows;
tp_rows tp_rows_of(const tp_region *r, size_t N);

/* *whole (N, C) = the ranks' x (R, C): x itself, or gathered into r->whole. Collective over: tp. */
trine_status tp_enter_forward(const tp_region *r, const void **whole, const void *x, size_t N,
                              size_t C);
trine_status tp_leave_backward(const tp_region *r, const void **whole, const void *dy, size_t N,
                               size_t C);
/* Where a rank writes its addend (N, C) of a sum that ends in `sum` (R, C): there, or in r->whole. */
void *tp_addend(const tp_region *r, void *sum);
/* dx or y (R, C) = own rows of the sum over tp of what lies at tp_addend(r, dx or y), in rank order.
 * Collective over: tp. */
trine_status tp_enter_backward(const tp_region *r, void *dx, size_t N, size_t C);
trine_status tp_leave_forward(const tp_region *r, void *y, size_t N, size_t C);

/* y (N, O/tp) = x (N, I) w^T + bias, of the ranks' x (R, I). O and I are the unsharded layer's sizes,
 * tp divides the split one. Collective over: tp. */
trine_status tp_column_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                               size_t N, size_t O, size_t I);
/* dx (R, I) = own rows of the sum over tp of dy (N, O/tp) w; dweight, dbias (+)=. x (R, I) is the
 * forward pass's. Collective over: tp. */
trine_status tp_column_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                const void *x, size_t N, size_t O, size_t I);
/* y (R, O) = dropout(own rows of the sum over tp of x (N, I/tp) w^T + bias) + residual (R, O); drop
 * NULL: none, else drop->first is R's first row. Collective over: tp. */
trine_status tp_row_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                            const void *residual, const dropout_args *drop, size_t N, size_t O,
                            size_t I);
/* dx (N, I/tp) = dy (N, O) w, of the ranks' dy (R, O), the gradient of what the dropout was given;
 * dweight, dbias (+)=: dbias is the whole one on every rank. Collective over: tp. */
trine_status tp_row_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                             const void *x, size_t N, size_t O, size_t I);

/* The two halves of these, of dx and of the gradients. In any order they make the same bits; with sequence
 * parallelism both halves of a row-parallel linear gather dy. Collective over: tp. */
trine_status tp_column_backward_input(const tp_region *r, void *dx, const tp_linear *l,
                                      const void *dy, size_t N, size_t O, size_t I);
trine_status tp_column_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                       const void *x, size_t N, size_t O, size_t I);
trine_status tp_row_backward_input(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                   size_t N, size_t O, size_t I);
trine_status tp_row_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                    const void *x, size_t N, size_t O, size_t I);

/* Rows of the vocabulary on a tp rank: as many on each, a multiple of `multiple`
 * (device_row_multiple); `valid` are real, of the last ranks maybe none. Pure. */
typedef struct {
    size_t first, rows, valid;
} tp_vocab;
tp_vocab tp_vocab_of(size_t V, int tp, int tp_rank, size_t multiple);

/* x (R, C) = own rows of table[tokens (N)]: each rank looks up its own part of the vocabulary, then
 * leave. Collective over: tp. */
trine_status tp_embedding_forward(const tp_region *r, void *x, const void *table,
                                  const int32_t *tokens, size_t N, size_t C, size_t V);
/* table's gradient (rows, C) (+)= rows of the ranks' dx (R, C), for the tokens that this rank holds;
 * padding rows are never touched. Collective over: tp. */
trine_status tp_embedding_backward(const tp_region *r, const param *table, const void *dx,
                                   const int32_t *tokens, size_t N, size_t C, size_t V);

/* logits (N, Vp/tp) = x (N, C) table^T of this rank's rows: a column-parallel linear whose input has
 * entered. Not collective. */
trine_status tp_logits_forward(const tp_region *r, void *logits, const param *table, const void *x,
                               size_t N, size_t C, size_t V);
/* all (tp, N, Vp/tp) = the ranks' logits (N, Vp/tp), in rank order; with a group of one, all may be
 * logits. Collective over: tp. */
trine_status tp_logits_gather(const tp_region *r, void *all, const void *logits, size_t N, size_t V);
/* x (N, C), the forward pass's, becomes this rank's addend of its gradient (tp_enter_backward adds
 * them up); table's gradient (+)=. Not collective. */
trine_status tp_logits_backward(const tp_region *r, void *x, const param *table, const void *dlogits,
                                size_t N, size_t C, size_t V);

/* A cross-entropy's rows. max (N) and sums (N, 2), xent_forward's of the whole vocabulary, are kept
 * for the backward pass; own (N), the shard's maxima, is scratch, and not used if tp is 1. */
typedef struct {
    float *max, *sums, *own;
} tp_xent;

/* *loss += scale * sum of the cross-entropies of logits (N, Vp/tp), which are read once and never
 * gathered: one all-reduce of the maxima, one of {denominator, target logit}. Collective over: tp. */
trine_status tp_xent_forward(const tp_region *r, double *loss, const tp_xent *x, const void *logits,
                             const int32_t *targets, double scale, size_t N, size_t V);
/* logits becomes its gradient. Not collective. */
trine_status tp_xent_backward(const tp_region *r, void *logits, const tp_xent *x,
                              const int32_t *targets, double scale, size_t N, size_t V);

#endif
