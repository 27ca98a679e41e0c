/* A step of very many micro-batches, planned without its programs. In the middle of a step each micro-batch, or each
 * group of a few, adds the same instructions to a stage, so that all numbers of which a plan is made (buffers,
 * instructions of each kind and unit, the step's time) grow linearly. They are those of a short step, and for each
 * further period as much more as a step has that is one period longer. A third step must agree; where it does not,
 * the whole step has to be composed. Cost: that of three steps of some micro-batches for each chunk. */
#ifndef TRINE_PLAN_STEADY_H
#define TRINE_PLAN_STEADY_H

#include "base/arena.h"
#include "core/program.h"
#include "run/parts.h"

enum { STEADY_STEPS = 3 };

/* {0}: none. Must not be moved: programs point to its specs. */
typedef struct {
    program_spec whole, specs[STEADY_STEPS];
    program *steps[STEADY_STEPS]; /* the stages' programs, checked; owned */
    program *stages; /* of `whole`, with its counts of buffers, and the code of steps[0]; the array is owned */
    int64_t periods; /* of the whole step, more than of the first */
    double idle;     /* pp_idle of the whole step; NAN: pp_bubble has it, or out of memory */
} steady;

/* Whether the whole step is so long that it is worth while. Pure. */
bool steady_worth(const program_spec *whole);

/* *found: false: the steps are not periodic, and *s is {0}. Errors: as compose_all; TRINE_ENOMEM. Not collective. */
trine_status steady_create(steady *s, const program_spec *whole, bool *found);
void steady_destroy(steady *s);

/* What a stage of the whole step takes, from the plans of the three steps; false: it does not grow linearly. Pure. */
bool steady_arena(const steady *s, const arena steps[STEADY_STEPS], arena *whole);

/* The traffic of a stage in the whole step. `h` as in traffic_of. Pure. */
traffic steady_traffic(const steady *s, const rank_state *h, int stage);

#endif
