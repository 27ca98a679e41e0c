/* A stage's state during symbolic execution, for the checker and for the rules of instructions. core/machine advances
 * the stages; check.c compares the order of their messages; check_fields.c checks fields; what an instruction
 * requires and changes is a rule in the file of its part (state/part.h); check_state.c has what rules share, and what
 * the end of a program requires. A rule reads only its own stage. Invariant: a rule that returns TRINE_OK has changed
 * the state as the instruction changes the buffers; otherwise it has raised TRINE_EPROGRAM with stage, position and
 * instruction. Cost: a few comparisons an instruction; a GATHER looks at every gather buffer. */
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
    bool others[INSTR_KINDS]; /* those without a rule of their own */
} unit_state;

typedef struct stage_state {
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
trine_status check_rules(const check_rule rules[INSTR_KINDS], stage_state *s, const instr *i);
/* Checks at the program's end that everything has run and every buffer is used and free. */
trine_status check_stage_end(const stage_state *s);

/* ---- What rules share ------------------------------------------------------------------------- */

#define ASCENDING "micro-batches come in ascending order"

/* A chunk and its units; that of an instruction. */
typedef struct {
    int index, first, last, units, backs; /* backs: units with a backward pass, its last ones */
} chunk_facts;
chunk_facts check_chunk_number(const stage_state *s, int chunk);
chunk_facts check_chunk_of(const stage_state *s, const instr *i);

/* Slot i->slot must hold micro-batch i->micro of the instruction's chunk. */
trine_status check_slot(const stage_state *s, const instr *i);
/* From here on it belongs to that micro-batch. */
trine_status check_claim_slot(stage_state *s, const instr *i);
/* Frees the slot when no computation and no message needs it any more. */
void check_release_slot(stage_state *s, slot_state *slot, chunk_facts c);
/* Gradient stream i->stream gets the gradient of a unit's output; it is free again. */
trine_status check_claim_stream(stage_state *s, const instr *i, int unit);
void check_release_stream(stage_state *s, stream_state *stream);

/* The field of a gather buffer, of a reduce buffer must be unset: this ZeRO stage has none. */
trine_status check_no_gather(const stage_state *s, const instr *i);
trine_status check_no_reduce(const stage_state *s, const instr *i);
/* All REDUCEs of a unit must have run. */
trine_status check_reduced(const stage_state *s, int unit);
/* Whether the stage has a TIE. */
bool check_ties(const stage_state *s);

#endif
