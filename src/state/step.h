/* The execution context of a step's instructions: rank state, groups, device, and a scoreboard of pending
 * communication per buffer. The functions that run an instruction are in its part (state/part.h); run/exec.c calls
 * them.
 *
 * Messages, gathers and reductions are only started; step_wait completes those that conflict with an instruction's
 * operands (program_operands, operand_conflicts). The checker's machine (core/machine.h) waits by the same rules, so
 * it is proved that this does not deadlock. Reductions are completed in the order
 * of the program, each after all earlier ones: on all ranks alike, and a shard gets its addends in the order of
 * micro-batches, whatever the number of buffers.
 * Invariant: only step_create allocates. Cost: a few comparisons per instruction. */
#ifndef TRINE_STATE_STEP_H
#define TRINE_STATE_STEP_H

#include "comm/api/comm.h"
#include "device/op_args.h"
#include "state/state.h"

/* Requests per buffer and part, at most: a gather unit with a tied head on the same stage has its ranges and the
 * head's
 * but the matrix. */
#define STEP_REQUESTS (2 * FLAT_RANGES - 1)

/* Pending communication on one buffer. */
typedef struct {
    comm_request *requests; /* (STEP_REQUESTS x parts) */
    int count;
    operand on;
} step_pending;

struct step_run;

/* A REDUCE in progress. */
typedef struct {
    instr reduce;
    operand operands[INSTR_OPERANDS];
    int operand_count;
    comm_request *requests; /* (FLAT_RANGES x parts), one for each range of the unit */
    int request_count;
    /* What remains to be done on this rank once all requests are complete. */
    trine_status (*finish)(struct step_run *r, const instr *reduce);
} step_reduction;

/* Inputs of a step besides its program, and its results. */
typedef struct {
    struct blend *samples;
    uint64_t first_sample; /* of the step, its number in the run */
    double scale;          /* 1 / supervised tokens in the global batch */
    double loss_scale;     /* contained in gradients until UPDATE; 1 except with fp16 */
    adamw_args adamw;      /* its scale is set by NORM, from clip */
    double clip;           /* 0: no clipping */
    bool decay_all;
    double loss, norm; /* out: global, the same on every rank */
    bool skipped;      /* out: the norm is not finite, UPDATE did nothing */
} step_io;

typedef struct step_run {
    rank_state *state;
    const trine_mesh *mesh;
    device *dev;
    uint64_t seed; /* of dropout */
    step_pending *waits[RESOURCES];
    step_reduction *reductions; /* a ring, in program order: `reducing` of them from `oldest` on */
    int room, oldest, reducing;
    comm_request *requests; /* the memory of all of them */
    /* while running */
    const program *program;
    step_io *io;
} step_run;

/* For programs whose buffers fit the state's (the training program and evaluations). Errors: TRINE_ENOMEM.
 * Destroy with step_destroy. Not collective. */
trine_status step_create(step_run *r, rank_state *state, const trine_mesh *mesh, device *dev);
void step_destroy(step_run *r);

/* The number in the step of a micro-batch of this rank; in the run, of its first sample. */
int step_number(const step_run *r, int micro);
uint64_t step_sample(const step_run *r, int micro);
trine_comm *step_group(const step_run *r, trine_group g);
/* The group of the ranks along `axes`; it must exist. */
trine_comm *step_axes(const step_run *r, axis_set axes);

/* A new request slot for a communication on a buffer. */
comm_request *step_start(step_run *r, resource what, int index, bool write);
/* Records that REDUCE *i is in progress; the caller starts its requests, one for each range of the unit. */
step_reduction *step_reduce(step_run *r, const instr *i, trine_status (*finish)(step_run *r, const instr *i));
/* Completes all reductions. Errors: those of comm_wait and of their `finish`. */
trine_status step_finish_reductions(step_run *r);
/* Completes the communication that conflicts with the instruction's operands. Errors: as above. */
trine_status step_wait(step_run *r, const instr *i);
/* Completes all pending communication; without `sends` all but sends, whose peer may not have arrived yet.
 * Errors: as above. */
trine_status step_drain(step_run *r, bool sends);

#endif
