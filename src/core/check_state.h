/* The checker's own: what one stage looks like while its program is executed symbolically. check.c
 * moves the stages and their messages, check_rules.c says what each instruction requires and
 * changes; no rule looks beyond its stage.
 * Invariant: a rule that returns TRINE_OK has changed the state as the instruction changes the
 * buffers; one that does not has raised TRINE_EPROGRAM with stage, position and instruction.
 * Cost: a few comparisons an instruction; a GATHER looks at every gather buffer. */
#ifndef TRINE_CORE_CHECK_STATE_H
#define TRINE_CORE_CHECK_STATE_H

#include "core/check.h"

/* A slot is free again when everything that its micro-batch needs it for has happened. */
typedef struct {
    int micro; /* -1: never used */
    bool loaded, received, sent, busy;
    int forwards, backwards; /* units done */
} slot_state;

/* The gradient of the output of unit `unit` for a micro-batch. */
typedef struct {
    int micro, unit; /* micro -1: never used */
    bool busy;
} stream_state;

typedef struct {
    int unit, micro;
    bool full, read; /* read: since it was filled */
} buffer_state;

typedef struct {
    int forwards, backwards, reduces, tp_reduces, updates, gathers;
} unit_state;

/* A message under way on a buffer: done when the other end of the edge has posted its own. */
typedef struct {
    bool active, write;
    int edge, ordinal;
    bool from_sender;
} pending;

/* One directed edge; micros in the order in which each side posted them. */
typedef struct {
    int *sent, *received;
    int sends, receives;
} edge_state;

typedef struct {
    const program *p;
    int at;
    slot_state *slots;
    stream_state *streams;
    buffer_state *gathers[CLASSES], *reduces[CLASSES];
    unit_state *units;
    pending *waits[RESOURCES];
    int ties, norms;
    int busy_slots, busy_streams;
    bool arrived; /* at a TIE or NORM, or in one queue at a message, waiting for other stages */
    check_facts facts;
} stage_state;

/* Raises TRINE_EPROGRAM with stage and instruction before the text. */
trine_status check_fault(const stage_state *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) return check_fault(s, __VA_ARGS__);                                      \
    } while (0)

bool check_is_message(instr_kind kind);
/* The stage at the other side of a message. */
int check_neighbour(const stage_state *s, const instr *message);
/* Whether the fields that the instruction needs are in range, and the others unused. */
trine_status check_fields(const stage_state *s, const instr *i);
/* What the instruction requires of its stage, and what it does to it. */
trine_status check_rules(stage_state *s, const instr *i);
/* What must have happened, and what must be free, when the stage's program has ended. */
trine_status check_stage_end(const stage_state *s);

#endif
