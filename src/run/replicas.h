/* Audit: replicated values must have the same bits on all ranks. Compared are parameters at rest over dp
 * (ZeRO-0/1/2), tensors that are replicated over tp, and a tied token matrix over the first and the last
 * stage. Device memory is read and hashed in segments. Cost: one pass over the parameters and a small
 * all-gather per tensor. */
#ifndef TRINE_RUN_REPLICAS_H
#define TRINE_RUN_REPLICAS_H

#include "state/state.h"

/* Errors: TRINE_EAUDIT names the tensor and the first rank that differs; those of device_read.
 * Collective over: world. */
trine_status replicas_agree(const rank_state *h, device *dev, const trine_mesh *mesh);

#endif
