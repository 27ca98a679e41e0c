/* What bounds of layouts (plan/search_bound.h) are made from. Each is the same for many layouts: its key has what it
 * depends on. All members are lower bounds. */
#ifndef TRINE_PLAN_BOUND_PARTS_H
#define TRINE_PLAN_BOUND_PARTS_H

#include "plan/pricing.h"
#include "plan/stage_order.h"

enum { BOUND_KEY = 6, ORDER_LIKE = 3 }; /* numbers of a key; the first of an order's, which are its chunks */

/* Of the units' passes over a micro-batch. */
typedef struct {
    int key[BOUND_KEY];
    pricing prices;
    double forward[UNIT_KINDS], input[UNIT_KINDS], weight[UNIT_KINDS]; /* seconds; input: B where it does not split */
    double acts[UNIT_KINDS]; /* bytes kept from the forward to the backward pass, without the output */
    double keep;             /* from BACKWARD_INPUT to BACKWARD_WEIGHT of a block */
    double stream, batch;    /* of an activation between units; of tokens and targets */
    double scratch[1 << UNIT_KINDS]; /* of a stage that has a set of kinds of units */
} unit_bounds;

/* Of the units' state over dp. */
typedef struct {
    int key[BOUND_KEY];
    bool once;          /* a REDUCE a step; else one a micro-batch, from a buffer */
    bool gathers_first; /* GATHERs into buffers, before use */
    bool gathers_last;  /* GATHERs at rest, after the update */
    int buffers, reduces; /* gather and reduce buffers of a class, at most */
    double bytes[UNIT_KINDS]; /* parameters, gradients and optimizer */
    double gather_bytes[UNIT_KINDS], reduce_bytes[UNIT_KINDS]; /* of a buffer */
    double reduce[UNIT_KINDS], gather[UNIT_KINDS], reduce_tp[UNIT_KINDS], update[UNIT_KINDS]; /* seconds */
    double tie; /* seconds, of a stage that has a tied matrix */
} state_bounds;

typedef struct {
    int key[BOUND_KEY];
    step_order order;
} order_bounds;

/* What a part depends on. Pure. */
void unit_bounds_key(const trine_config *c, int key[BOUND_KEY]);
void state_bounds_key(const trine_config *c, const step_order *o, int key[BOUND_KEY]);
void order_bounds_key(const trine_config *c, int key[BOUND_KEY]);
/* Micro-batches of a rank. Pure. */
int bound_micros(const trine_config *c);

/* These make all but the key. Errors: TRINE_ENOMEM, and those of resolve_spec. */
trine_status unit_bounds_make(unit_bounds *out, const forecast_rules *rules, const trine_config *c, int ranks,
                              const device *dev);
trine_status state_bounds_make(state_bounds *out, const forecast_rules *rules, const trine_config *c, int ranks,
                               const device *dev);
/* like: one of the same stages, chunks and schedule; NULL: there is none. */
trine_status order_bounds_make(order_bounds *out, const trine_config *c, const order_bounds *like);

#endif
