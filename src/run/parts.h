/* The registry of all dimensions: the passes that build a program, in order, and for every instruction the
 * functions of its module that run it and count its bytes. A new instruction is a row in core/instruction.h,
 * a row here, and a file in its module. */
#ifndef TRINE_RUN_PARTS_H
#define TRINE_RUN_PARTS_H

#include "state/step.h"

typedef struct {
    trine_status (*run)(step_run *r, const instr *i);
    /* The bytes that it sends (NULL: none), and the offset of their member in `traffic`. */
    uint64_t (*bytes)(const rank_state *s, const program *p, const instr *i);
    size_t counts;
} run_part;

/* Never NULL for a kind below INSTR_KINDS. Pure. */
const run_part *run_part_of(instr_kind kind);

/* A pass: rewrites the program of one stage or appends to it, or rewrites those of all stages together. */
typedef struct {
    trine_status (*stage)(program *p);
    trine_status (*all)(program *stages); /* one of the two is NULL */
} run_pass;

/* All passes; both functions of the last are NULL. Their order determines the order at the end of a step: REDUCE, REDUCE_TP, TIE,
 * NORM, UPDATE, GATHER. Pure. */
const run_pass *run_passes(void);

#endif
