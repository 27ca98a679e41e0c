/* The data dimension: which samples are whose (batch.c), when gradients are summed over the group
 * (reduce.c) and the global gradient norm (norm.c).
 *
 * Every micro-batch's loss is divided once by the tokens of the global batch, so every reduction is
 * a plain sum. Gradient accumulation over micro-batches: ZeRO-0/1 add locally and reduce once, 2/3
 * reduce every micro-batch and add the sums. Invariant: a REDUCE follows the BACKWARD that makes a
 * unit's gradient final at once, inside the program: where PyTorch DDP's buckets are (Li et al., VLDB 2020,
 * section 3.2), but it is done when its instruction is, and nothing overlaps it. */
#ifndef TRINE_DP_DP_H
#define TRINE_DP_DP_H

#include "device/ops.h"
#include "state/step.h"

/* Micro-batches per step: global / (micro x ranks), of as many ranks as read other samples
 * (axes_of_samples). Errors: TRINE_EINVAL when it does not divide. Pure. */
trine_status dp_micro_batches(int global_batch, int micro_batch, int ranks, int *out);

/* The index in the global batch of sample b of micro-batch m on the d-th of these ranks. Pure. */
uint64_t dp_sample(int micro_batch, int ranks, int d, int m, int b);

/* The number of sample b of a micro-batch of this rank in the whole run. Pure. */
uint64_t dp_step_sample(const step_run *r, int micro, size_t b);

/* Fills a slot's batch. Errors: TRINE_EDATA for a bad token. Not collective. */
trine_status dp_run_load(step_run *r, const instr *i);

/* Pass: REDUCE after a unit's last BACKWARD, or after every one with ZeRO-2/3, which then go
 * through reduce buffers. Sets p->reduces. Errors: TRINE_ENOMEM. */
trine_status dp_reduce(program *p);

/* Errors: those of flat_redistribute. Collective over: what each range is reduced over (dp). */
trine_status dp_run_reduce(step_run *r, const instr *i);
/* Bytes that it hands to its groups. Pure. */
uint64_t dp_reduce_bytes(const rank_state *s, const program *p, const instr *i);

/* Pass: appends NORM. Errors: TRINE_ENOMEM. */
trine_status dp_norm(program *p);

/* Sets the step's loss, norm and the scale of its gradients, and whether it is skipped. Errors: the
 * operator's, those of dp_norm_global. Collective over: dp, tp and pp. */
trine_status dp_run_norm(step_run *r, const instr *i);
uint64_t dp_norm_bytes(const rank_state *s, const program *p, const instr *i);

/* Tensors of a range that count in the norm with elements in [begin, begin + count): those that all
 * tp ranks hold count on tp rank 0 only. Pure. */
int dp_norm_count(const flat_range *range, size_t begin, size_t count, int tp_rank);
/* sums (dp_norm_count of them, in the device's memory) = sums of squares of the gradients of these
 * tensors in [begin, begin + count), each in blocks of SUM_SQUARES_BLOCK; the gradients start at g
 * for element `begin`. Errors: the operator's own. Not collective. */
trine_status dp_norm_local(device *d, const flat_range *range, size_t begin, size_t count,
                           const void *g, int tp_rank, double *sums);
/* The sum of n such numbers, read back, in order. Pure. */
double dp_norm_add(const double *sums, int n);

/* The numbers that leave a step: per unit this rank's sum of squares, and its share of the loss. */
typedef struct {
    double *squares; /* (units); zero for units of other stages */
    double loss;     /* zero but on the last stage */
} dp_sums;

/* Doubles of scratch that dp_norm_global needs. Pure. */
size_t dp_norm_scratch(int units, trine_layout layout);

/* *squares and *loss = the global ones, bit-identical on every rank and for every pipeline depth:
 * squares are added in (unit, tp, dp) order, losses in dp order.
 * Errors: the collectives' own. Collective over: dp, tp and pp. */
trine_status dp_norm_global(const trine_mesh *mesh, const dp_sums *own, int units, double *scratch,
                            double *squares, double *loss);

#endif
