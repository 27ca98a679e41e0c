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
    int forwards, backwards, weights; /* units done; of BACKWARD both of the last */
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

/* How often each has happened. */
typedef struct {
    int forwards, backwards, weights, reduces, tp_reduces, updates, gathers;
    bool others[INSTR_KINDS]; /* of kinds that have no rule of their own */
} unit_state;

/* A message under way on a buffer: done when the other end of the edge has posted its own. */
typedef struct {
    bool active, write;
    struct link_state *link;
    int ordinal;
    bool from_sender;
} pending;

/* What a side has posted on a link. */
typedef struct {
    int edge, micro;
} posted;

/* One directed way between two stages, which all edges of the same stages and kind share; what each side
 * posted, in order. */
typedef struct link_state {
    posted *sent, *received;
    int sends, receives;
} link_state;

typedef struct {
    const program *p;
    int at;
    slot_state *slots;
    stream_state *streams;
    buffer_state *gathers[CLASSES], *reduces[CLASSES], *keeps;
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

/* The edge that a message goes over; -1: the chunk has none there. */
int check_edge(const stage_state *s, const instr *message);
/* The stage at the other side of a message that has an edge. */
int check_neighbour(const stage_state *s, const instr *message);
/* Whether the fields that the instruction needs are in range, and the others unused. */
trine_status check_fields(const stage_state *s, const instr *i);
/* What the instruction requires of its stage, and what it does to it. */
trine_status check_rules(stage_state *s, const instr *i);
/* What must have happened, and what must be free, when the stage's program has ended. */
trine_status check_stage_end(const stage_state *s);

#endif
