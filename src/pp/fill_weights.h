/* Weight gradients where a stage would wait: for schedules that say in which order F and I run, and leave W to
 * the gaps. */
#ifndef TRINE_PP_FILL_WEIGHTS_H
#define TRINE_PP_FILL_WEIGHTS_H

#include "pp/order.h"

/* Appends a stage's F and I with their W. `make` appends the F and I of a stage, in order; together those
 * orders must have no deadlock. All stages are simulated, with F, I and W of one time unit each and messages
 * of none: a stage runs the next of its F and I as soon as what it needs is there; otherwise its oldest W; if
 * it has none, the first F or I that can run. An F waits while the stage has `most` chunks with an F and without
 * their W. Cost: O(P M V), for one stage. Errors: TRINE_ENOMEM, those of `make`. Aborts if the orders of `make` wait
 * in a cycle, or `most` is too small for them. */
trine_status pp_fill_weights(const pp_shape *s, int most, int stage, pp_actions *out,
                             trine_status (*make)(const pp_shape *s, int stage, pp_actions *out));

#endif
