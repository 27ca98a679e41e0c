/* The machine that steps the programs of all stages together, without running them: each stage's position, which
 * messages either side has started, and what is pending on each buffer. It waits as the interpreter does
 * (state/step.h): messages are only started, and an instruction waits for those that conflict with its operands.
 * What is done at each instruction is a *hook*: the checker proves (core/check.h), the simulation counts time
 * (pp/simulate.h), the order of messages for one queue needs the positions only (pp/one_queue.c).
 *
 * A stage runs until it waits, then the next one, round after round. TIE and NORM wait for all stages that take part.
 * In one queue a message, or the last of a message group, waits until the peer has started its own, in any order.
 * Of GATHER and REDUCE nothing is known here: their peers are ranks of one stage, which run the same program.
 * Cost: linear in the number of instructions, times the number of times that a stage has to wait. */
#ifndef TRINE_CORE_MACHINE_H
#define TRINE_CORE_MACHINE_H

#include "core/program.h"

/* What happens at instruction p->code[at] of a stage, in an order in which nothing precedes what it waits for. Each
 * may be NULL; an error ends machine_run. */
typedef trine_status (*machine_event)(void *context, const program *p, int at);

typedef struct {
    void *context;
    machine_event may_start; /* the stage has come to it; its fields may be out of range until this is TRINE_OK */
    machine_event starts;    /* nothing pending conflicts with its operands */
    machine_event ends;      /* a message: when an instruction waits for it, or at the end of all programs */
} machine_hook;

/* How the stages wait. */
typedef enum {
    MACHINE_BUFFERS = 1,  /* for the pending messages on their operands; slots and streams must be set */
    MACHINE_ONE_QUEUE = 2 /* at each message */
} machine_waits;

/* A message, by its identity (program_message): how often each side has started it, once in a legal program, and
 * where the last time. */
typedef enum { MACHINE_SENDER, MACHINE_RECEIVER, MACHINE_SIDES } machine_side;
typedef struct {
    struct {
        int starts, stage, at;
    } by[MACHINE_SIDES];
} machine_message;

/* A message that a stage has started and that nobody has waited for yet. */
typedef struct {
    const machine_message *on; /* NULL: none */
    machine_side side;
    int at; /* its position */
    operand cargo;
} machine_pending;

typedef struct {
    int at;                     /* the position; p->count: ended */
    bool came, started;         /* the events of its instruction that have happened */
    const machine_message *message; /* what it has started there; NULL: it is no message */
    bool has_started[INSTR_KINDS];
    machine_pending *all; /* up to that of the next stage; parts of it, by buffer: */
    machine_pending *pending[RESOURCES]; /* NULL: no message carries what is in these */
} machine_stage;

typedef struct {
    const program *stages; /* not owned; what lies behind the positions may change between two calls of machine_run */
    const program_spec *spec;
    unsigned waits;
    machine_stage *now; /* (stages + 1) */
    machine_message *messages;
    machine_pending *pending; /* of all stages */
} machine;

/* All stages at the beginning of their programs. Errors: TRINE_ENOMEM. Destroy with machine_destroy in any case. */
trine_status machine_create(machine *m, const program *stages, unsigned waits);
void machine_destroy(machine *m);

/* Steps the stages until none can go on; if all have ended, the messages that are still pending end, too. Errors:
 * those of the hook. */
trine_status machine_run(machine *m, const machine_hook *hook);

bool machine_ended(const machine *m, int stage);
bool machine_all_ended(const machine *m);
/* The stage that a stage waits for; *at (unless NULL): the position of what waits there, the instruction at which it
 * is, or a message that it has started before. -1: it need not wait. */
int machine_awaited(const machine *m, int stage, int *at);
/* A stage of a cycle of stages that wait for each other, or one that waits for a stage that has ended. Only where
 * some stage has not ended, and machine_run has returned TRINE_OK. */
int machine_stuck(const machine *m);
/* A message of an ended stage that its peer has not started; NULL: none. */
const machine_pending *machine_unmatched(const machine *m, int stage);
/* The message of an instruction, which must have an edge. */
machine_message *machine_message_of(const machine *m, const program *p, const instr *i);

/* Takes back the start of the message or message group at which a stage waits: it comes to it again, whatever stands
 * there then. Only without MACHINE_BUFFERS. */
void machine_take_back(machine *m, int stage);

#endif
