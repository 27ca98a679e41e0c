/* ZeRO in a step (its table is in core/sharding.h): gather.c inserts GATHERs into a program and runs them,
 * update.c updates the part that a rank owns. */
#ifndef TRINE_ZERO_ZERO_H
#define TRINE_ZERO_ZERO_H

#include "device/ops.h"
#include "state/step.h"

/* Pass. ZeRO-3: GATHER before use, into as many buffers per class as the spec allows; evicts the unit whose next
 * use is farthest (Belady: the program is known) and starts each GATHER one computation early if a buffer is
 * free. ZeRO-1/2: GATHER after the UPDATEs. Sets p->gathers. Errors: TRINE_ENOMEM. */
trine_status zero_gather(program *p);

/* Gathers parameters at rest, or starts the gather into a gather buffer. Errors: those of flat_redistribute.
 * Collective over: dp. */
trine_status zero_run_gather(step_run *r, const instr *i);
/* Bytes that it sends. Pure. */
uint64_t zero_gather_bytes(const rank_state *s, const program *p, const instr *i);

/* Pass: appends the UPDATEs. Errors: TRINE_ENOMEM. */
trine_status zero_update(program *p);

/* Does nothing in a skipped step. Errors: the operator's own. Not collective. */
trine_status zero_run_update(step_run *r, const instr *i);

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
