/* The prover's own state, and sums over dp. */
#ifndef TRINE_CORE_PROVE_SUMS_H
#define TRINE_CORE_PROVE_SUMS_H

#include "core/prove_state.h"

/* The sum over dp of a lane, added to an earlier sum: what all units with the same lanes share. */
typedef struct {
    term lane, onto, sum; /* lane TERM_NONE: free */
} memo_entry;

typedef struct {
    memo_entry *entries; /* owned; a power of two */
    int count, capacity;
} memo_table;

typedef struct prover {
    const program_spec *spec;
    const prove_rule *rules; /* [INSTR_KINDS] */
    const prove_model *model;
    term_pool *pool;
    prove_stage *stages; /* owned */
    prove_strand *strands; /* owned: (units, PROVE_STRANDS) */
    int *strand_count;     /* owned: (units) */
    thing *messages;     /* owned: what each carries, by program_message */
    int *number;         /* owned: the numbers in the step of a rank's micro-batches */
    int numbers;         /* micro-batches of the step */
    memo_table memo;
} prover;

#endif
