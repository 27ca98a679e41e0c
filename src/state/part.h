/* A part: all that an instruction is besides its row in core/instruction.h. Its module has it in one file, with the
 * functions, as part_REDUCE, part_NORM, ...; run/parts.c lists the parts and the order of their passes. */
#ifndef TRINE_STATE_PART_H
#define TRINE_STATE_PART_H

#include "core/check.h"
#include "core/prove.h"
#include "state/state.h"

struct step_run; /* state/step.h */

/* Every member but `run` may be NULL. */
typedef struct instr_part {
    /* Inserts the instruction into a stage's program, by the spec and the stage alone, so that all ranks of a stage
     * have one program; NULL: another pass does. Errors: TRINE_ENOMEM. */
    trine_status (*pass)(program *p);
    /* What must have happened before, and what it changes (core/check_state.h); NULL: it runs once for each unit. */
    check_rule check;
    /* What it reads, sets and adds, and in which order (core/prove_state.h); NULL: nothing that numbers depend on. */
    prove_rule prove;
    /* Memory of its own, which is own[its kind] of the rank state. `take` declares or takes buffers, and sets own to
     * one; if several are needed, own is a record of as many bytes, zeroed and no part of the memory plan, which take
     * fills. */
    size_t (*record)(const rank_state *h);
    void (*take)(rank_state *h, arena *a);
    /* Runs it on this rank; its operands are ready. */
    trine_status (*run)(struct step_run *r, const instr *i);
    /* The bytes that it sends, exactly; NULL: none. `h` may have no memory. Pure. */
    uint64_t (*bytes)(const rank_state *h, const program *p, const instr *i);
} instr_part;

#define INSTR_PART(name, fields, where, queue, operands, meaning) extern const instr_part part_##name;
INSTR_LIST(INSTR_PART)
#undef INSTR_PART

#endif
