/* The loss scale of fp16 (Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2):
 * the loss's gradient is multiplied by it, so that small gradients are numbers in fp16, and the
 * update divides by it. It is fixed, or moves as Megatron-LM's DynamicGradScaler does:
 *
 *   a step overflows  its update is skipped; of `hysteresis` one is used up; where none is left the
 *                     scale is halved, but not below the minimum
 *   a step does not   after `window` of them in a row the scale is doubled, and the hysteresis whole
 *
 * So after the first halving each overflow halves, until a doubling. Where the scale would have to be
 * halved and is the minimum already, training has no way on (SCALER_STUCK); Megatron goes on and
 * skips every step.
 *
 * Invariant: a function of the outcomes so far alone. All ranks see the same ones (the global norm),
 * so all have the same scale, and nobody sends it. It is part of the state of a job. */
#ifndef TRINE_TRAIN_SCALER_H
#define TRINE_TRAIN_SCALER_H

#include "trine.h"

typedef struct {
    double scale;
    double min;             /* 0: the scale is fixed */
    int window, hysteresis; /* as configured */
    int good, left;         /* steps in a row without overflow; of the hysteresis */
} scaler;

typedef enum { SCALER_KEPT, SCALER_HALVED, SCALER_DOUBLED, SCALER_STUCK } scaler_verdict;

/* As configured; without fp16 fixed at 1. Pure. */
scaler scaler_of(const trine_precision *p);

/* What a step's outcome makes of the scale. Pure but for *s. */
scaler_verdict scaler_update(scaler *s, bool overflowed);

#endif
