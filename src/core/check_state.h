/* Internal to the checker: a stage's state during symbolic execution. core/machine.h advances the stages; check.c
 * compares the order of their messages; check_fields.c checks fields; check_rules.c has what each instruction
 * requires and changes; a rule reads only its own stage.
 * Invariant: a rule that returns TRINE_OK has changed the state as the instruction changes the
 * buffers; otherwise it has raised TRINE_EPROGRAM with stage, position and instruction.
 * Cost: a few comparisons an instruction; a GATHER looks at every gather buffer. */
#ifndef TRINE_CORE_CHECK_STATE_H
#define TRINE_CORE_CHECK_STATE_H

#include "core/check.h"

/* A slot is busy from LOAD or RECV_ACT (or FORWARD) to the last use by its micro-batch. */
typedef struct {
    int chunk, micro; /* micro -1: never used */
    bool loaded, received, sent, busy; /* sent: the next chunk has its output, or no longer reads it */
    int forwards, backwards, weights; /* units done; a BACKWARD counts as backward and weight */
} slot_state;

/* The gradient of the output of unit `unit` for a micro-batch. */
typedef struct {
    int micro, unit; /* micro -1: never used */
    bool busy;
} stream_state;

typedef struct {
    int unit, micro;
    bool full, read; /* read: since the last fill */
} buffer_state;

/* How often each instruction has run. */
typedef struct {
    int forwards, backwards, weights, reduces, tp_reduces, updates, gathers;
    bool others[INSTR_KINDS]; /* kinds without a rule of their own */
} unit_state;

typedef struct {
    const program *p;
    int at;
    slot_state *slots;
    stream_state *streams;
    buffer_state *gathers[CLASSES], *reduces[CLASSES], *keeps;
    unit_state *units;
    int ties, norms;
    int busy_slots, busy_streams;
    check_facts facts;
} stage_state;

/* Raises TRINE_EPROGRAM; the message starts with stage and instruction. */
trine_status check_fault(const stage_state *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) return check_fault(s, __VA_ARGS__);                                      \
    } while (0)

/* Checks that the instruction's fields are in range and all others unset. */
trine_status check_fields(const stage_state *s, const instr *i);
/* Checks what the instruction requires of its stage and applies its effect. */
trine_status check_rules(stage_state *s, const instr *i);
/* Checks at the program's end that everything has run and every buffer is used and free. */
trine_status check_stage_end(const stage_state *s);

#endif
