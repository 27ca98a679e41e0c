/* The loss scale of fp16 (Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2):
 * the loss's gradient is multiplied by it, so that small gradients do not underflow in fp16, and the
 * update divides by it. It is static, or dynamic as Megatron-LM's DynamicGradScaler:
 *
 *   overflow      the step's update is skipped and the hysteresis count is decremented; at 0 the scale
 *                 is halved, but not below the minimum
 *   no overflow   after `window` such steps in a row the scale is doubled and the hysteresis reset
 *
 * So after the first halving each overflow halves the scale, until it is doubled. If the scale would
 * have to be halved but is at the minimum, training cannot continue (SCALER_STUCK); Megatron continues
 * and skips every step.
 *
 * Invariant: a function of the outcomes so far alone. All ranks see the same outcomes (the global
 * norm), so all have the same scale without communication. It is part of the state of a job. */
#ifndef TRINE_TRAIN_SCALER_H
#define TRINE_TRAIN_SCALER_H

#include "trine_types.h"

typedef struct {
    double scale;
    double min;             /* 0: the scale is static */
    int window, hysteresis; /* as configured */
    int good, left;         /* steps in a row without overflow; hysteresis left */
} scaler;

typedef enum { SCALER_KEPT, SCALER_HALVED, SCALER_DOUBLED, SCALER_STUCK } scaler_verdict;

/* As configured; static at 1 without fp16. Pure. */
scaler scaler_of(const trine_precision *p);

/* Updates the scale with a step's outcome. Pure except for *s. */
scaler_verdict scaler_update(scaler *s, bool overflowed);

#endif
