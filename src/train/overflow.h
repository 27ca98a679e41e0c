/* Where a step's gradients stopped being finite: asked after a step that was skipped, while they are
 * still there. Each rank sums the squares of its own part of every tensor's gradient, from the unit
 * whose backward pass is the first on, and all agree on the first of what they saw.
 *
 * What is looked at has been added over dp and, of a tied matrix on two stages, over these: the rank
 * is the one that holds the sum, not the one whose addend it was; and of the matrix's two ends the
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
