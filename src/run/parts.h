/* All parts of programs: the part of each instruction, and the passes in their order. A new instruction is a row in
 * core/instruction.h, a file in the module of its dimension, and its pass in the list of parts.c. */
#ifndef TRINE_RUN_PARTS_H
#define TRINE_RUN_PARTS_H

#include "state/part.h"

/* Never NULL for a kind below INSTR_KINDS. Pure. */
const instr_part *run_part_of(instr_kind kind);

/* A pass: rewrites the program of one stage or appends to it, or rewrites those of all stages together. */
typedef struct {
    const instr_part *of; /* the pass of this part */
    trine_status (*stage)(program *p);
    trine_status (*all)(program *stages); /* two of the three are NULL */
} run_pass;

/* All passes; the last has NULLs only. Their order determines the order at the end of a step: REDUCE, REDUCE_TP, TIE,
 * NORM, UPDATE, GATHER. Pure. */
const run_pass *run_passes(void);

/* The bytes that a rank sends in one run of a program, computed without running it. --dry-run prints them; the
 * tallies of comm/ must be equal to the byte (tests/zero). Bytes are counted as in trine_tally. */
typedef struct {
    uint64_t bytes[INSTR_KINDS];
} traffic;

/* `h` needs no memory (state_create is enough). Pure. */
traffic traffic_of(const rank_state *h, const program *p);
/* largest[g]: the bytes of the largest buffer that a collective of the program reduces or gathers over group g, 0:
 * none. Pure. */
void traffic_largest(const rank_state *h, const program *p, size_t largest[TRINE_GROUPS]);

#endif
