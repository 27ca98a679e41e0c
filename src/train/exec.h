/* The interpreter: runs one rank's program on its holding. One switch, one small function per
 * instruction. Messages and gathers are only started; the scoreboard keeps what is under way on
 * every buffer, and an instruction first waits for what conflicts with its operands
 * (program_operands): a write under way for any use, a read under way for a write. core/check.c has
 * proved with the same operands that this ends.
 *
 * Invariant: a step allocates nothing. Cost: a few comparisons per instruction. */
#ifndef TRINE_TRAIN_EXEC_H
#define TRINE_TRAIN_EXEC_H

#include "comm/comm.h"
#include "data/sampler.h"
#include "train/holding.h"
#include "train/profile.h"

/* The gather unit of a tied model on one stage has three ranges. */
#define EXEC_REQUESTS 3

/* What is under way on one buffer. */
typedef struct {
    comm_request requests[EXEC_REQUESTS];
    int count;
    bool write;
} exec_pending;

/* What one step needs to know beyond its program, and what it reports. */
typedef struct {
    const sampler *samples;
    uint64_t first_sample; /* of the global batch, in the order of samples */
    double scale;          /* 1 / tokens in the global batch */
    double loss_scale;     /* that gradients carry until UPDATE; 1 but for fp16 */
    adamw_args adamw;      /* scale is set by NORM, from clip */
    double clip;           /* 0: no clipping */
    bool decay_all;
    double loss, norm;     /* out: global, the same on every rank */
    bool skipped;          /* out: the norm was not finite, UPDATE did nothing */
} exec_step;

typedef struct {
    holding *h;
    const trine_mesh *mesh;
    device *dev;
    tp_region tp;
    gpt_run run;
    exec_pending *waits[RESOURCES];
    bool serial, audit;
    uint64_t seed; /* of dropout */
    profile *profile; /* of the steps that are measured; NULL: nobody is */
    /* while running */
    const program *program;
    exec_step *step;
    int at;
} exec;

/* Makes an interpreter for programs that fit the holding's (the training program and evaluations).
 * Errors: TRINE_ENOMEM. Ended by exec_destroy. Not collective. */
trine_status exec_create(exec *e, holding *h, const trine_mesh *mesh, device *dev);
void exec_destroy(exec *e);

/* Runs with another device of the same kind from now on, and tells `p` (NULL: nobody) what it does.
 */
void exec_measure(exec *e, device *dev, profile *p);

/* Runs the program. Errors: the collectives' and operators' own; TRINE_EDATA for a bad token.
 * Collective over: world (every rank runs its stage's program). */
trine_status exec_run(exec *e, const program *p, exec_step *step);

#endif
