/* Where all dimensions meet: the passes that make a program, in their order, and for every instruction the
 * function of its room that runs it and the one that counts its bytes. A new instruction is a row in
 * core/instruction.h, a row here, and a file of its room. */
#ifndef TRINE_RUN_PARTS_H
#define TRINE_RUN_PARTS_H

#include "state/step.h"

typedef struct {
    trine_status (*run)(step_run *r, const instr *i);
    /* Bytes that it hands to its groups, and where in a `traffic` they count; NULL: it sends nothing. */
    uint64_t (*bytes)(const rank_state *s, const program *p, const instr *i);
    size_t counts;
} run_part;

/* Never NULL for a kind below INSTR_KINDS. Pure. */
const run_part *run_part_of(instr_kind kind);

/* A pass: rewrites p, or appends to it. */
typedef trine_status (*run_pass)(program *p);

/* All passes, ended by NULL. Their order is that at the end of a step: REDUCE, REDUCE_TP, TIE, NORM, UPDATE,
 * GATHER. Pure. */
const run_pass *run_passes(void);

#endif
