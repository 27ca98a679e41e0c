/* A step of very many micro-batches, planned without its programs. In the middle of a step each micro-batch, or each group of a
 * few, adds the same instructions to a stage, so that all numbers of which a plan is made (buffers, instructions of each
 * kind and unit, the step's time) grow linearly. They are those of a short step, and for each further period as much more as a
 * step has that is one period longer. A third step must agree; where it does not, the whole step has to be composed.
 * Cost: that of three steps of some micro-batches for each chunk. */
#ifndef TRINE_PLAN_STEADY_H
#define TRINE_PLAN_STEADY_H

#include "core/program.h"
#include "run/traffic.h"

enum { STEADY_STEPS = 3 };

/* {0}: none. Must not be moved: programs point to its specs. */
typedef struct {
    program_spec specs[STEADY_STEPS]; /* of the short steps; then [0] is the whole step's */
    program *steps[STEADY_STEPS]; /* the stages' programs, checked; those of [0] then have the whole step's counts of buffers. Owned */
    int64_t periods; /* of the whole step, more than of the first */
    double idle;     /* pp_idle of the whole step; NAN: pp_bubble has it, or out of memory */
} steady;

/* Whether the whole step is so long that it is worth while. Pure. */
bool steady_worth(const program_spec *whole);

/* *found: false: the steps are not periodic, and *s is {0}. Errors: as compose_all; TRINE_ENOMEM. Not collective. */
trine_status steady_create(steady *s, const program_spec *whole, bool *found);
void steady_destroy(steady *s);

/* The traffic of a stage in the whole step. `h` as in traffic_of. Pure. */
traffic steady_traffic(const steady *s, const rank_state *h, int stage);

#endif
