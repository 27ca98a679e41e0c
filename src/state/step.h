/* What the instructions of a step run on: a rank's state, its groups and device, and the scoreboard of what is
 * under way on its buffers. The functions that run an instruction stand with the dimension that
 * inserted it (zero/zero.h, dp/dp.h, pp/pp.h, tp/reduce.h, model/gpt.h); run/exec.c calls them.
 *
 * Messages and gathers are only started; step_wait finishes what conflicts with an instruction's operands
 * (program_operands): a write under way for any use, a read under way for a write. core/check.c has
 * proved with the same operands that this ends.
 * Invariant: nothing here allocates but step_create. Cost: a few comparisons an instruction. */
#ifndef TRINE_STATE_STEP_H
#define TRINE_STATE_STEP_H

#include "comm/api/comm.h"
#include "device/ops.h"
#include "state/state.h"

/* The gather unit of a tied model on one stage has three ranges. */
#define STEP_REQUESTS 3

/* What is under way on one buffer. */
typedef struct {
    comm_request requests[STEP_REQUESTS];
    int count;
    bool write;
} step_pending;

/* What one step needs to know beyond its program, and what it reports. */
typedef struct {
    const struct sampler *samples;
    uint64_t first_sample; /* of the global batch, in the order of samples */
    double scale;          /* 1 / tokens in the global batch */
    double loss_scale;     /* that gradients carry until UPDATE; 1 but for fp16 */
    adamw_args adamw;      /* scale is set by NORM, from clip */
    double clip;           /* 0: no clipping */
    bool decay_all;
    double loss, norm; /* out: global, the same on every rank */
    bool skipped;      /* out: the norm was not finite, UPDATE did nothing */
} step_io;

typedef struct {
    rank_state *state;
    const trine_mesh *mesh;
    device *dev;
    uint64_t seed; /* of dropout */
    step_pending *waits[RESOURCES];
    /* while running */
    const program *program;
    step_io *io;
} step_run;

/* For programs that fit the state's (the training program and evaluations). Errors: TRINE_ENOMEM. Ended by
 * step_destroy. Not collective. */
trine_status step_create(step_run *r, rank_state *state, const trine_mesh *mesh, device *dev);
void step_destroy(step_run *r);

trine_comm *step_group(const step_run *r, trine_group g);
/* Of the ranks along `axes`, which have a group. */
trine_comm *step_axes(const step_run *r, axis_set axes);

/* The next request that goes under way on a buffer. */
comm_request *step_start(step_run *r, resource what, int index, bool write);
/* Finishes what conflicts with the instruction's operands. Errors: those of comm_wait. */
trine_status step_wait(step_run *r, const instr *i);
/* Finishes what is under way: everything, or all but sends, for which the peer may not have come yet.
 * Errors: those of comm_wait. */
trine_status step_drain(step_run *r, bool sends);

#endif
