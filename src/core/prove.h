/* The prover: executes the programs of all stages on symbols, on core/machine.h, and says of which micro-batches each
 * gradient is the sum, and in which order they are added. All ranks of a stage run one program, so one of them is
 * executed, with its dp rank open; a REDUCE adds what each dp rank has.
 *
 * Where the checker (core/check.h) counts instructions and demands the order that our passes make, this looks at what
 * is in the buffers: a program that adds the same numbers in another order, or in other buffers, is proved as well,
 * and what is refused is refused by what would be missing, counted twice or another's. It proves that
 *
 *   - a unit runs forward and backward on the values that it is meant to have: of its own micro-batch, from the unit
 *     before or behind it, with its own parameters
 *   - each micro-batch of the step counts exactly once in each gradient and in the loss
 *   - gradients are summed over dp once and, where tp ranks have parts of them, over tp once; a tied matrix has both
 *     of its gradients
 *   - the norm and the update read complete gradients, each parameter is updated once, and every rank has all of it
 *     afterwards that its ZeRO stage keeps
 *
 * A unit is an uninterpreted function: what its bits depend on besides its inputs is the model's to say
 * (model/bits.h). Programs must be free of deadlock and races, as the machine makes them by waiting; the checker
 * refuses others. Cost: linear in the number of instructions; the sums of a dp group once for each different sum.
 * Compare: TrainVerify (arXiv 2506.15961), which proves operators over the reals with shapes reduced; here sums keep
 * their order. */
#ifndef TRINE_CORE_PROVE_H
#define TRINE_CORE_PROVE_H

#include "core/program.h"
#include "core/term.h"
#include "trine_model.h"

/* Tensors of a unit which every instruction treats alike. */
typedef struct {
    char name[TRINE_LAYER_NAME + 24]; /* of the first one */
    int tensors;
    bool small;   /* BACKWARD_INPUT computes their gradients, if the pass is split */
    bool tied;    /* the token matrix */
    bool partial; /* a tp rank computes its gradient from its own rows or heads: REDUCE_TP sums it */
} prove_strand;
#define PROVE_STRANDS 6 /* of a unit, at most */

/* What UPDATE computes, as its function declares it (zero/update.c). */
typedef struct {
    const char *name; /* "AdamW" */
    /* The new value of an element depends on the same element of the parameters, the gradients and the moments, and
     * on numbers that are equal on all ranks: so it does not matter which slice a rank updates. */
    bool elementwise;
} prove_update_rule;

/* What the programs do not say. */
typedef struct {
    int dp;        /* ranks that read different samples */
    bool half;     /* gradients are stored in 16 bits */
    bool any;      /* sums over dp are in an order that a library chooses */
    /* The strands of a unit; returns their number. Pure. */
    int (*strands)(const void *context, int unit, prove_strand out[PROVE_STRANDS]);
    const void *context;
} prove_model;

/* The gradient of a strand when it is used: the sum over micro-batches, by their numbers in the step. */
typedef struct {
    term sum;
    bool tied; /* TIE has added the twin's */
} prove_sum;

typedef struct {
    const program_spec *spec; /* not owned */
    int numbers;              /* micro-batches of a step */
    prove_sum *sums;          /* (units, PROVE_STRANDS); owned. NULL: forward_only */
    const prove_update_rule *update; /* static; NULL: nothing is updated */
    term loss;
} proof;

struct prove_stage; /* core/prove_state.h */
/* What an instruction sets, what it adds, and in which order. */
typedef trine_status (*prove_rule)(struct prove_stage *s, const instr *i);

/* `stages` has spec->stages programs; the terms of *out are the pool's. Destroy with proof_destroy in any case.
 * Errors: TRINE_EPROGRAM with stage, instruction and what is wrong, also for programs that do not end; TRINE_ENOMEM.
 * Pure. */
trine_status prove_programs(const program *stages, const prove_rule rules[INSTR_KINDS], const prove_model *m,
                            term_pool *pool, proof *out);
void proof_destroy(proof *out);

#endif
