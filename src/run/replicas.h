/* Audit: what several ranks hold a copy of must be the same bits everywhere. Parameters at rest
 * over dp (ZeRO-0/1/2), tensors that tp does not split over tp, a tied token matrix over the first
 * and the last stage. What the host cannot touch is read a piece at a time, and hashed in these
 * pieces. Cost: one pass over the parameters and a small all-gather per tensor. */
#ifndef TRINE_RUN_REPLICAS_H
#define TRINE_RUN_REPLICAS_H

#include "state/state.h"

/* Errors: TRINE_EAUDIT names the tensor and the first rank that differs; those of device_read.
 * Collective over: world. */
trine_status replicas_agree(const rank_state *h, device *dev, const trine_mesh *mesh);

#endif
