/* Finds where a step's gradients first became NaN or infinite; called after a skipped step, while the
 * gradients are still in memory. Each rank sums the squares of its shard of every tensor's gradient,
 * starting with the unit whose backward pass runs first, and all ranks agree on the first one found.
 *
 * The gradients have been reduced over dp and, for a tied matrix on two stages, over these: the rank
 * named is the one that has the sum, not the one that contributed the overflow; for a tied matrix the
 * head is named. Cost: a pass over the gradients, an all-reduce of one number. */
#ifndef TRINE_TRAIN_OVERFLOW_H
#define TRINE_TRAIN_OVERFLOW_H

#include "state/state.h"

#define OVERFLOW_TEXT 128

/* text = "h.2.mlp.c_fc.weight (layer 2) on rank 1 [pp0 dp1 tp0]", the same on every rank; "" if all
 * gradients are finite. Errors: the operators', device_read's and collectives' own.
 * Collective over: world. */
trine_status overflow_find(const rank_state *h, device *dev, const trine_mesh *mesh,
                           char text[OVERFLOW_TEXT]);

#endif
