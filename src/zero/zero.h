/* ZeRO in a step (its table is in core/sharding.h): gather.c inserts GATHERs into a program and runs them,
 * update.c updates the part that a rank owns. */
#ifndef TRINE_ZERO_ZERO_H
#define TRINE_ZERO_ZERO_H

#include "device/ops.h"
#include "state/step.h"

/* The arrays of an update; all start at the same element. */
typedef struct {
    float *w, *m, *v; /* the master, its moments */
    void *copy;    /* parameters of the device's compute type: set to w's rounding; NULL if w has that type */
    const void *g; /* of the device's gradient type */
} zero_state;

/* AdamW on elements [begin, begin + count) of a range; the state points to element `begin`.
 * args->decay applies to matrices, or to everything with decay_all. Errors: the operator's own.
 * Not collective. */
trine_status zero_adamw(device *d, const flat_range *range, size_t begin, size_t count,
                        const zero_state *state, const adamw_args *args, bool decay_all);

#endif
