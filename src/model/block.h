/* Forward and backward of each kind of unit, for gpt.c to choose from. The contract is that of
 * gpt_forward and gpt_backward (model/gpt.h), with the unit already told apart.
 *
 * Invariant: every forward has its backward beside it, the same lines in reverse. Cost of a block
 * over tp: four all-reduces of (N, C), two in each direction; of the embedding one; of the head
 * one, and two of a few values per token. With sequence parallelism each is a reduce-scatter and an
 * all-gather; a block's backward has two all-gathers more. Shoeybi et al., "Megatron-LM", 2019,
 * section 3. */
#ifndef TRINE_MODEL_BLOCK_H
#define TRINE_MODEL_BLOCK_H

#include "model/gpt.h"

/* y (R, C) from x (R, C). Collective over: tp. */
trine_status block_forward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *y,
                           const void *x, const gpt_batch *batch);
/* d (R, C) turns from dy into dx. Collective over: tp. */
trine_status block_backward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *d,
                            const void *x, const gpt_batch *batch);

/* The two parts of block_backward: d (R, C) turns from dy into dx, and the gradients of norms are made; then
 * those of matrices and biases. Collective over: tp. */
trine_status block_backward_input(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a,
                                  const gpt_keep *keep, void *d, const void *x,
                                  const gpt_batch *batch);
trine_status block_backward_weight(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a,
                                   const gpt_keep *keep);

/* x (R, C) = dropout(token rows + positions). Collective over: tp. */
trine_status embedding_forward(const gpt_run *r, const gpt_unit *u, void *x,
                               const gpt_batch *batch);
/* dtoken, dposition (+)= from dx (R, C), which is used up. Collective over: tp. */
trine_status embedding_backward(const gpt_run *r, const gpt_unit *u, void *dx,
                                const gpt_batch *batch);

/* *batch->loss += the micro-batch's share, from x (R, C). Collective over: tp. */
trine_status head_loss(const gpt_run *r, const gpt_head *h, const void *x, const gpt_batch *batch);
/* The same, and dx (R, C) = gradient; dtoken, dnorm (+)=. Collective over: tp. */
trine_status head_backward(const gpt_run *r, const gpt_head *h, void *dx, const void *x,
                           const gpt_batch *batch);

#endif
