/* The interpreter: runs a rank's program on its state. For each instruction it waits for communication that
 * conflicts with the operands (state/step.h), then calls the function of the instruction's module (run/parts.h).
 * Before an instruction, while reductions are in progress, it lets them progress (comm_progress).
 *
 * Invariant: a step allocates nothing. Cost: a few comparisons per instruction. */
#ifndef TRINE_RUN_EXEC_H
#define TRINE_RUN_EXEC_H

#include "state/step.h"

/* What an observer is told of instruction p->code[at]; at is p->count for the communication completed at the end of
 * the program. */
typedef void (*exec_event)(void *context, const program *p, int at);

typedef enum {
    EXEC_BEGUN,      /* the program, before its first instruction */
    EXEC_PROGRESSED, /* reductions have progressed, before the instruction */
    EXEC_WAITED,     /* it has waited for its operands; with --serial also for what it has started */
    EXEC_EXECUTED,
    EXEC_EVENTS
} exec_events;

typedef struct exec_observer {
    void *context;
    exec_event on[EXEC_EVENTS]; /* each may be NULL */
    struct exec_observer *next; /* exec_attach's */
} exec_observer;

typedef struct {
    step_run run;
    bool serial, audit;
    exec_observer *observers; /* a list, not owned */
    int at;                   /* while running */
} exec;

/* Creates an interpreter for programs whose buffers fit the state's (the training program and evaluations).
 * Errors: TRINE_ENOMEM. Destroy with exec_destroy. Not collective. */
trine_status exec_create(exec *e, rank_state *state, const trine_mesh *mesh, device *dev);
void exec_destroy(exec *e);

/* Switches to another device of the same kind. */
void exec_use_device(exec *e, device *dev);
/* Adds an observer, which must stay where it is until exec_detach: events are told to the newest first. */
void exec_attach(exec *e, exec_observer *o);
/* An observer that is not attached is ignored. */
void exec_detach(exec *e, const exec_observer *o);

/* Instructions [from, to) of a program. Parts of one run follow each other, and are cut where the program may be
 * (core/cut.h); the first begins at 0, and the last ends at p->count. */
typedef struct {
    int from, to;
} exec_part;

/* Runs a part, with the same *io for all parts of a run, and completes what it has started: nothing is under way
 * between parts. Errors: as exec_run. Collective over: world. */
trine_status exec_run_part(exec *e, const program *p, exec_part part, step_io *io);

/* Runs the program. Errors: the collectives' and operators' own; TRINE_EDATA for a bad token.
 * Collective over: world (every rank runs its stage's program). */
trine_status exec_run(exec *e, const program *p, step_io *io);

#endif
