/* The interpreter: runs one rank's program on its state. For each instruction it waits for what conflicts with
 * its operands (state/step.h), then calls the function of its room (run/parts.h).
 *
 * Invariant: a step allocates nothing. Cost: a few comparisons per instruction. */
#ifndef TRINE_RUN_EXEC_H
#define TRINE_RUN_EXEC_H

#include "state/step.h"

/* Who is told where a step's time goes: after an instruction has waited for its operands, and after it has
 * run; `kind` is its own, or INSTR_KINDS for what is finished at the end. */
typedef struct {
    void *context;
    void (*waited)(void *context, int kind);
    void (*executed)(void *context, int kind);
} exec_observer;

typedef struct {
    step_run run;
    bool serial, audit;
    exec_observer observer; /* of the steps that are measured; all NULL: nobody is */
    int at;                 /* while running */
} exec;

/* Makes an interpreter for programs that fit the state's (the training program and evaluations).
 * Errors: TRINE_ENOMEM. Ended by exec_destroy. Not collective. */
trine_status exec_create(exec *e, rank_state *state, const trine_mesh *mesh, device *dev);
void exec_destroy(exec *e);

/* Runs with another device of the same kind from now on, and tells the observer what it does. */
void exec_measure(exec *e, device *dev, exec_observer observer);

/* Runs the program. Errors: the collectives' and operators' own; TRINE_EDATA for a bad token.
 * Collective over: world (every rank runs its stage's program). */
trine_status exec_run(exec *e, const program *p, step_io *io);

#endif
