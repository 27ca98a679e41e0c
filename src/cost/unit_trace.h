/* What one instruction of a unit computes and sends over tp: its list is run on a counting device with a counting
 * group, so that the trace has what a training step calls, in the same order. No memory is touched: the arena lies in
 * addresses that can be neither read nor written. */
#ifndef TRINE_COST_UNIT_TRACE_H
#define TRINE_COST_UNIT_TRACE_H

#include "cost/count_device.h"
#include "model/gpt.h"

/* One of FORWARD, BACKWARD, BACKWARD_INPUT and BACKWARD_WEIGHT. */
typedef struct {
    instr_kind kind;
    bool adds; /* gradients are added to those of the micro-batches before */
    bool keeps; /* with a keep buffer: the backward pass is split */
} unit_pass;

/* Of unit `unit` of a model of these shapes, which is rank 0's of its tp group, on a device of this kind and these
 * types (it may be one for sizes). *out is the caller's (count_trace_destroy), on failure too. Errors: TRINE_ENOMEM.
 * Not collective. */
trine_status unit_trace(const gpt_shape *s, const device *dev, int unit, unit_pass pass, count_trace *out);

#endif
