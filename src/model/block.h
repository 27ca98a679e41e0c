/* Forward and backward of each kind of unit, for gpt.c to choose from. The contract is that of
 * gpt_forward and gpt_backward (model/gpt.h), with the unit already told apart.
 *
 * Invariant: every forward has its backward beside it, the same lines in reverse. Cost of a block
 * over tp: four all-reduces of (N, C), two in each direction; of the embedding one; of the head
 * one, and two of a few values per token. Shoeybi et al., "Megatron-LM", 2019, section 3. */
#ifndef TRINE_MODEL_BLOCK_H
#define TRINE_MODEL_BLOCK_H

#include "model/gpt.h"

/* y (N, C) from x (N, C). Collective over: tp. */
trine_status block_forward(const gpt_run *r, const gpt_block *b, const gpt_block_acts *a, void *y,
                           const void *x);
/* d (N, C) turns from dy into dx. Collective over: tp. */
trine_status block_backward(const gpt_run *r, const gpt_block *b, const gpt_block_acts *a, void *d,
                            const void *x);

/* x (N, C) = token rows + positions. Collective over: tp. */
trine_status embedding_forward(const gpt_run *r, const gpt_embedding *e, void *x,
                               const gpt_batch *batch);
/* dtoken, dposition (+)= from dx (N, C). Not collective. */
trine_status embedding_backward(const gpt_run *r, const gpt_embedding *e, const void *dx,
                                const gpt_batch *batch);

/* *batch->loss += the micro-batch's share, from x (N, C). Collective over: tp. */
trine_status head_forward(const gpt_run *r, const gpt_head *h, const gpt_head_acts *a,
                          const void *x, const gpt_batch *batch);
/* dx (N, C) = gradient; the logits are consumed. Collective over: tp. */
trine_status head_backward(const gpt_run *r, const gpt_head *h, const gpt_head_acts *a, void *dx,
                           const void *x, const gpt_batch *batch);

#endif
