/* What ZeRO (core/sharding.h has its table) does in a step: gather.c is the pass that puts GATHERs into a
 * program and runs them, update.c updates the part that a rank owns. */
#ifndef TRINE_ZERO_ZERO_H
#define TRINE_ZERO_ZERO_H

#include "device/ops.h"
#include "state/step.h"

/* Pass: ZeRO-3 GATHERs before use, into as many buffers per class as the spec allows, evicting the
 * unit whose next use is farthest (Belady's rule: the program is known), each GATHER one
 * computation early where a buffer is free; ZeRO-1/2 GATHERs after the UPDATEs. Sets p->gathers.
 * Errors: TRINE_ENOMEM. */
trine_status zero_gather(program *p);

/* Where parameters rest, or left under way into a gather buffer. Errors: those of flat_redistribute.
 * Collective over: dp. */
trine_status zero_run_gather(step_run *r, const instr *i);
/* Bytes that it hands to its group. Pure. */
uint64_t zero_gather_bytes(const rank_state *s, const program *p, const instr *i);

/* Pass: appends the UPDATEs. Errors: TRINE_ENOMEM. */
trine_status zero_update(program *p);

/* Nothing in a step that is skipped. Errors: the operator's own. Not collective. */
trine_status zero_run_update(step_run *r, const instr *i);

/* What an update reads and writes, all from the same element on. */
typedef struct {
    float *w, *m, *v; /* the master, its moments */
    void *copy;    /* the device's compute type: becomes w's rounding; NULL where w is that type */
    const void *g; /* the device's type of gradients */
} zero_state;

/* AdamW on elements [begin, begin + count) of a range: the state points at element `begin`.
 * args->decay applies to matrices, or to everything with decay_all. Errors: the operator's own.
 * Not collective. */
trine_status zero_adamw(device *d, const flat_range *range, size_t begin, size_t count,
                        const zero_state *state, const adamw_args *args, bool decay_all);

#endif
