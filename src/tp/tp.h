/* Tensor parallelism inside a layer (Shoeybi et al., "Megatron-LM", 2019, section 3). A
 * column-parallel linear layer splits the output features, a row-parallel one the input features;
 * nothing is sent between the two. All communication is in one conjugate pair:
 *
 *   enter   forward: identity,            backward: all-reduce        (Megatron's f)
 *   leave   forward: all-reduce,          backward: identity          (Megatron's g)
 *
 * With sequence parallelism (Korthikanti et al., "Reducing activation recomputation in large
 * transformer models", MLSys 2023, section 4.2.2) a rank has only its share of the rows outside
 * that pair, [rank N/tp, (rank + 1) N/tp) of the micro-batch's N = B T, and the pair is
 *
 *   enter   forward: all-gather,          backward: reduce-scatter    (g of that paper)
 *   leave   forward: reduce-scatter,      backward: all-gather        (its g bar)
 *
 * with the traffic of one all-reduce for each pair. The input is kept as a share and gathered again for
 * the gradient of the weight. Sequence parallelism is a property of the region, not of the layers in it:
 * layers are given unsharded sizes. Modules above this one do not use the group. A group of one rank
 * costs nothing: its collectives are those of the transport "self".
 *
 * With parallel.exact a rank of a smaller tp group computes what ranks of a larger one do, P parts one after the
 * other: products, and sums of their results by a tree whose shape the layout does not change. Below, tp is the
 * number of parts over all ranks (tp_size). What lies inside a region, and each parameter, is P blocks, a part each;
 * x (N, I/tp) stands for (P, N, I/tp). In 16 bits an addend is rounded once, and sums are fp32 up to the tree's root.
 *
 * A parameter without dw is frozen: the product for its gradient is not made, nor x gathered for it.
 *
 * Invariant: a SPLIT_NONE tensor has bit-identical gradients on every tp rank, or is marked `tp_partial`
 * (core/flat.h): its gradient is computed from this rank's rows and is an addend. Activations have
 * the same bits with and without sequence parallelism. Cost per half-block and direction: one
 * all-reduce of (N, C), or a reduce-scatter and an all-gather; backward one more all-gather. */
#ifndef TRINE_TP_TP_H
#define TRINE_TP_TP_H

#include "comm/api/comm.h"
#include "device/device.h"
#include "device/op_args.h"
#include "trine_types.h"

typedef struct {
    trine_comm *comm; /* the tp group */
    device *dev;
    void *full; /* sequence parallelism: scratch for the widest (N, C) that enters; not used after the call. NULL:
                   no sequence parallelism, or tp 1 */
    void *sum;  /* with `full`, unless there is `wide`: scratch for the widest (N, C) that leaves, this rank's addend;
                   not used after the call. It may be `full`, except in tp_column_backward */
    /* parallel.exact; zeros: not. */
    bool tree;     /* sums over tp are made by a tree */
    int parts;     /* P, that this rank plays */
    void *addends; /* (P, N, C) scratch for the widest (N, C): the parts' addends; NULL: P is 1 */
    float *wide;   /* (N, C) scratch, in 16 bits: their sum, unrounded; NULL: P is 1, or tp is */
} tp_region;

/* A parameter and its gradient, bound to memory by the caller of the layer. */
typedef struct {
    const void *w; /* the device's compute type */
    void *dw;      /* the device's gradient type; NULL: none */
    grad_mode mode; /* whether the next backward pass sets dw or adds to it: `(+)=` below */
    bool frozen;    /* it is not trained: dw is NULL, and no product for it is made */
    size_t w_part, dw_part; /* elements from a part's w (dw) to the next part's */
} param;

/* The parameter of part p of this rank, which is that of a rank of tp x P. Pure. */
const void *tp_w(const tp_region *r, const param *q, int p);
void *tp_dw(const tp_region *r, const param *q, int p);

/* The shard of this rank: column-parallel weight (O/tp, I), bias (O/tp); row-parallel weight (O, I/tp),
 * bias (O), which is the same on every tp rank. bias.w and bias.dw NULL: no bias. weight.mode is that of both. */
typedef struct tp_lora tp_lora; /* low-rank adapters: tp/adapter.h */
typedef struct {
    param weight, bias;
    const tp_lora *lora; /* NULL: none */
} tp_linear;

/* Rows [first, first + count) of N that a rank has outside the pair; without sequence parallelism
 * all rows. `count` is called R below. Pure. */
typedef struct {
    size_t first, count;
} tp_rows;
tp_rows tp_rows_of(const tp_region *r, size_t N);

/* Enter forward, leave backward: *full (N, C) = the ranks' x (R, C): x itself, or gathered into r->full. The second
 * only starts it: *full may be read after comm_wait on *request. Collective over: tp. */
trine_status tp_gather(const tp_region *r, const void **full, const void *x, size_t N, size_t C);
trine_status tp_gather_start(const tp_region *r, const void **full, const void *x, size_t N, size_t C,
                             comm_request *request);
/* Row `at` of the full (N, C) after tp_gather. Pure. */
void *tp_full_row(const tp_region *r, void *x, size_t at, size_t C);
/* All parts; the number of this rank's first part among them; this rank's parts. Pure. */
int tp_size(const tp_region *r);
int tp_first(const tp_region *r);
int tp_parts(const tp_region *r);
/* The memory for the addend (N, C) of part p of a sum whose result is `sum` (R, C): `sum`, r->sum, or a block of
 * r->addends. */
void *tp_addend(const tp_region *r, void *sum, int p, size_t N, size_t C);
/* Leave forward, enter backward: own (R, C) = own rows of the sum over tp of the addends at tp_addend(r, own), in
 * rank order or by the tree. Collective over: tp. */
trine_status tp_sum(const tp_region *r, void *own, size_t N, size_t C);
/* The same, to the bit, in the background: `own` and the addends belong to the sum until tp_sum_finish, which may
 * wait for the other ranks. Other calls over tp may come in between. Collective over: tp. */
trine_status tp_sum_start(const tp_region *r, void *own, size_t N, size_t C, comm_request *request);
trine_status tp_sum_finish(const tp_region *r, void *own, size_t N, size_t C, comm_request *request);
/* The two steps of tp_sum: the sum of this rank's addends of rows [at, at + n), which were at
 * tp_addend(r, own, p, n, C); then that over ranks, of all N rows. */
trine_status tp_sum_parts(const tp_region *r, void *own, size_t at, size_t n, size_t C);
trine_status tp_sum_ranks(const tp_region *r, void *own, size_t N, size_t C);

/* y (N, O/tp) = x (N, I) w^T + bias, of the ranks' x (R, I). O and I are the sizes of the unsharded
 * layer; tp divides the split one. Collective over: tp. */
trine_status tp_column_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                               size_t N, size_t O, size_t I);
/* dx (R, I) = own rows of the sum over tp of dy (N, O/tp) w; dweight, dbias (+)=. x (R, I) is that of
 * the forward pass. The gather of x is started before the product for dx, and the sum of dx before that for
 * dweight, as in Megatron-LM (LinearWithGradAccumulationAndAsyncCommunication). Collective over: tp. */
trine_status tp_column_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                const void *x, size_t N, size_t O, size_t I);
/* y (R, O) = dropout(own rows of the sum over tp of x (N, I/tp) w^T + bias) + residual (R, O); drop
 * NULL: no dropout; else drop->first is the first of the R rows. Collective over: tp. */
trine_status tp_row_forward(const tp_region *r, void *y, const tp_linear *l, const void *x,
                            const void *residual, const dropout_args *drop, size_t N, size_t O,
                            size_t I);
/* dx (N, I/tp) = dy (N, O) w, of the ranks' dy (R, O), the gradient of the dropout's input;
 * dweight, dbias (+)=: every rank computes the full dbias. Collective over: tp. */
trine_status tp_row_backward(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                             const void *x, size_t N, size_t O, size_t I);

/* The two halves of these functions: dx, and the gradients of weight and bias. They compute the same bits in any
 * order, and wait at once; with sequence parallelism both halves of a row-parallel layer gather dy. Collective over:
 * tp. */
trine_status tp_column_backward_input(const tp_region *r, void *dx, const tp_linear *l,
                                      const void *dy, size_t N, size_t O, size_t I);
trine_status tp_column_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                       const void *x, size_t N, size_t O, size_t I);
trine_status tp_row_backward_input(const tp_region *r, void *dx, const tp_linear *l, const void *dy,
                                   size_t N, size_t O, size_t I);
trine_status tp_row_backward_weight(const tp_region *r, const tp_linear *l, const void *dy,
                                    const void *x, size_t N, size_t O, size_t I);

/* Rows of the vocabulary on a tp rank, or of a part: the same number on each, a multiple of `multiple`
 * (device_row_multiple). The first `valid` rows are real, the others padding; on the last ranks valid may be 0.
 * Pure. */
typedef struct {
    size_t first, rows, valid;
} tp_vocab;
tp_vocab tp_vocab_of(size_t V, int tp, int tp_rank, size_t multiple);

/* x (R, C) = own rows of table[tokens (N)]: each rank looks up its own part of the vocabulary, then
 * leave. Collective over: tp. */
trine_status tp_embedding_forward(const tp_region *r, void *x, const param *table,
                                  const int32_t *tokens, size_t N, size_t C, size_t V);
/* The gradient of table (rows, C) (+)= rows of the ranks' dx (R, C), for the tokens whose rows this rank
 * holds; padding rows are never touched. Collective over: tp. */
trine_status tp_embedding_backward(const tp_region *r, const param *table, const void *dx,
                                   const int32_t *tokens, size_t N, size_t C, size_t V);

/* logits (N, Vp/tp) = x (N, C) table^T for this rank's rows of table: a column-parallel layer whose input
 * has entered the region already. Not collective. */
trine_status tp_logits_forward(const tp_region *r, void *logits, const param *table, const void *x,
                               size_t N, size_t C, size_t V);
/* all (tp, N, Vp/tp) = the ranks' logits (N, Vp/tp), in rank order; in a group of one rank `all` may be
 * `logits`. Collective over: tp. */
trine_status tp_logits_gather(const tp_region *r, void *all, const void *logits, size_t N, size_t V);
/* For rows [at, at + N) of x (R, C), which tp_gather has brought: their gradient becomes this rank's addend of the
 * sum over ranks (tp_sum_ranks); the gradient of table (+)=. Not collective. */
trine_status tp_logits_backward(const tp_region *r, void *x, size_t at, const param *table,
                                const void *dlogits, size_t N, size_t C, size_t V);

/* Statistics of the rows of a cross-entropy. max (N) and sums (N, 2), those of xent_forward for the full
 * vocabulary, are kept for the backward pass; own (N), the maxima of the shard, is scratch and not used if tp is 1.
 */
typedef struct {
    float *max, *sums, *own; /* with several parts sums (P, N, 2), whose first block is the result, and own (P, N) */
} tp_xent;

/* *loss += scale * sum of the cross-entropies of logits (N, Vp/tp), of rows that have a target (OPS_NO_TARGET: none).
 * The logits are read once and not gathered: one all-reduce of the maxima, one of {denominator, target logit}.
 * Collective over: tp. */
trine_status tp_xent_forward(const tp_region *r, double *loss, const tp_xent *x, const void *logits,
                             const int32_t *targets, double scale, size_t N, size_t V);
/* Replaces logits by its gradient. Not collective. */
trine_status tp_xent_backward(const tp_region *r, void *logits, const tp_xent *x,
                              const int32_t *targets, double scale, size_t N, size_t V);

#endif
