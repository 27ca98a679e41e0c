/* The interpreter: runs a rank's program on its state. For each instruction it waits for communication that
 * conflicts with the operands (state/step.h), then calls the function of the instruction's module (run/parts.h).
 * Before an instruction, while reductions are in progress, it lets them progress (comm_progress).
 *
 * Invariant: a step allocates nothing. Cost: a few comparisons per instruction. */
#ifndef TRINE_RUN_EXEC_H
#define TRINE_RUN_EXEC_H

#include "state/step.h"

/* Callbacks for timing: after reductions have progressed; after an instruction has waited for its operands, and after
 * it has run. `kind` is the
 * instruction's, or INSTR_KINDS for the communication completed at the end of the program. */
typedef struct {
    void *context;
    void (*waited)(void *context, int kind);
    void (*executed)(void *context, int kind);
    void (*progressed)(void *context);
} exec_observer;

typedef struct {
    step_run run;
    bool serial, audit;
    exec_observer observer; /* of measured steps; NULL callbacks: none */
    int at;                 /* while running */
} exec;

/* Creates an interpreter for programs whose buffers fit the state's (the training program and evaluations).
 * Errors: TRINE_ENOMEM. Destroy with exec_destroy. Not collective. */
trine_status exec_create(exec *e, rank_state *state, const trine_mesh *mesh, device *dev);
void exec_destroy(exec *e);

/* Switches to another device of the same kind and to another observer. */
void exec_measure(exec *e, device *dev, exec_observer observer);

/* Runs the program. Errors: the collectives' and operators' own; TRINE_EDATA for a bad token.
 * Collective over: world (every rank runs its stage's program). */
trine_status exec_run(exec *e, const program *p, step_io *io);

#endif
