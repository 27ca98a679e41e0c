/* Lower bounds of a layout's memory and of its step's time, before its programs are made. They are made from what
 * the programs will be made from: the order of each stage's actions (plan/stage_order.h), the prices of passes and
 * of communication (plan/pricing.h), and the sizes of units and of what they keep (model/gpt.h).
 *
 *   time    The longest of some paths through the step. A stage cannot begin before its input can have come, with
 *           the messages on the way, nor its first backward pass before the micro-batch has been through all
 *           stages; from there on it is busy for all that its order has; after its last actions gradients go back
 *           to the first stage, REDUCEs end in turn, and every stage updates after the slowest has come to NORM.
 *           What is left out: waiting in the middle, for buffers, and for links
 *   memory  Of the stage that has most: the state and the buffers of its units, and what they keep of the
 *           micro-batches that are in flight at once. What is left out: padding, and memory of NORM, TIE and
 *           REDUCE_TP
 *
 * tests/plan/search.c compares both with every layout of small spaces. Cost: a few additions a chunk; an order,
 * and the prices of units, are made once for all layouts that share them. */
#ifndef TRINE_PLAN_SEARCH_BOUND_H
#define TRINE_PLAN_SEARCH_BOUND_H

#include "plan/pricing.h"

typedef struct bounds bounds;

typedef struct {
    double seconds; /* of a step, at least */
    double bytes;   /* of the heaviest rank, with what libraries take, at least */
} layout_bound;

/* For layouts of `ranks` ranks with the device and types of `c`; the rules are copied. Errors: TRINE_ENOMEM. The
 * caller owns *out. */
trine_status bounds_create(bounds **out, const forecast_rules *rules, const trine_config *c, int ranks);
void bounds_destroy(bounds *b);
/* Of a configuration that trine_config_check has accepted. All of one `bounds` have the same model, batch,
 * precision and device. Errors: those of resolve_spec; TRINE_ENOMEM. */
trine_status bounds_of(bounds *b, const trine_config *c, layout_bound *out);

#endif
