/* What differs between implementations of a training step where published steps were measured: a row each. That of
 * Megatron-LM in 2021 is of Narayanan et al., SC 2021; in 2022, of Korthikanti et al., 2022; Megatron-DeepSpeed is
 * that of 2021 as DeepSpeed's pipeline engine runs it (Bang et al., "vTrain", MICRO 2024). What their kernels move
 * was counted in their sources: docs/planning.md has the sums for a block. */
#ifndef TRINE_COST_IMPLEMENTATION_H
#define TRINE_COST_IMPLEMENTATION_H

#include "cost/count_device.h"

/* How an operator's counted bytes become those that are moved, and by how many kernels. */
typedef struct {
    counted what;
    double factor;  /* of the bytes that OPS_LIST counts */
    double inner;   /* attention: in addition, bytes of a (tokens, heads x width) array of 16 bits */
    double scores;  /* attention: in addition, bytes of all scores in 16 bits, which are in memory */
    int products;   /* attention: batched products of (T, T) scores, without skipping the masked half; 0: fused */
    int kernels;
} implementation_op;

#define IMPLEMENTATION_LIST(X)                                                                     \
    X(IMPLEMENTATION_TRINE, "trine")                                                               \
    X(IMPLEMENTATION_MEGATRON_2021, "megatron-2021")                                               \
    X(IMPLEMENTATION_MEGATRON_2022, "megatron-2022")                                               \
    X(IMPLEMENTATION_MEGATRON_DEEPSPEED, "megatron-deepspeed")

typedef enum {
#define IMPLEMENTATION_ENUM(name, text) name,
    IMPLEMENTATION_LIST(IMPLEMENTATION_ENUM)
#undef IMPLEMENTATION_ENUM
        IMPLEMENTATIONS
} implementation_kind;

typedef struct {
    const char *name;
    const implementation_op *ops; /* operators whose bytes differ; the last has COUNTED. NULL: none */
    trine_dtype grads;      /* of weight gradients */
    double add_bytes;       /* for each parameter and micro-batch, if there are several: a pass that adds gradients;
                               0: they are added inside the product */
    bool repeats_forward;   /* full recomputation repeats the whole forward pass; selective, that of attention */
    bool hides_sums;        /* in the backward pass of a column-parallel layer the gather of its input runs beside the
                               product for the input's gradient, and the sum of that beside the weight's */
    bool late, late_alone;  /* sums over dp begin after the last micro-batch: in a pipeline; without one */
    bool blocks;            /* a stage waits for each message that it sends */
    bool scatters;          /* a message is 1 / tp of the activations, which the receiving node gathers */
    double dropout;         /* what its users trained with, hidden and attention */
} implementation;

/* Pure. */
const implementation *implementation_of(implementation_kind kind);
/* The row of an operator; NULL: as OPS_LIST counts it, in one kernel. Pure. */
const implementation_op *implementation_op_of(const implementation *i, counted what);

#endif
