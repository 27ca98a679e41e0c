/* Data parallelism: the distribution of samples (batch.c), gradient reduction (reduce.c) and the global
 * gradient norm (grad_norm.c).
 *
 * Every micro-batch's loss is divided once by the tokens of the global batch, so every reduction is a plain
 * sum. Gradient accumulation over micro-batches: ZeRO-0/1 add locally and reduce once, ZeRO-2/3 reduce every
 * micro-batch and add the sums. Invariant: in the program a REDUCE directly follows the BACKWARD that completes
 * the unit's gradient, at the position of PyTorch DDP's buckets (Li et al., VLDB 2020, section 3.2); it
 * is only started there, progresses between later instructions, and is finished, in program order, when one of these
 * needs its gradients or its reduce buffer (state/step.h). */
#ifndef TRINE_DP_DP_H
#define TRINE_DP_DP_H

#include "device/ops.h"
#include "state/step.h"

/* Micro-batches per step: global / (micro x ranks), with the number of ranks that read different samples
 * (axes_of_samples). Errors: TRINE_EINVAL if it is not an integer. Pure. */
trine_status dp_micro_batches(int global_batch, int micro_batch, int ranks, int *out);

/* The index in the global batch of sample b of micro-batch m on the d-th of these ranks. Pure. */
uint64_t dp_sample(int micro_batch, int ranks, int d, int m, int b);

/* The index in the run of sample b of a micro-batch of this rank. Pure. */
uint64_t dp_step_sample(const step_run *r, int micro, size_t b);

/* Fills a slot's batch. Errors: TRINE_EDATA for a bad token. Not collective. */
trine_status dp_run_load(step_run *r, const instr *i);

/* Pass: inserts REDUCE after a unit's last BACKWARD; with ZeRO-2/3 after every BACKWARD, through reduce buffers, which
 * the units of a class take in turn. Sets p->reduces: spec->reduce_buffers a class, but no more than it has REDUCEs. Errors: TRINE_ENOMEM. */
trine_status dp_reduce(program *p);

/* Starts it; over groups of one rank it is finished at once. Errors: those of flat_reduce_start. Collective over: the axes over which each range is reduced (dp). */
trine_status dp_run_reduce(step_run *r, const instr *i);
/* Bytes that it sends. Pure. */
uint64_t dp_reduce_bytes(const rank_state *s, const program *p, const instr *i);

/* Pass: appends NORM. Errors: TRINE_ENOMEM. */
trine_status dp_norm(program *p);

/* Sets the step's loss, gradient norm and gradient scale, and whether it is skipped. Errors: the operator's,
 * those of dp_norm_global. Collective over: dp, tp and pp. */
trine_status dp_run_norm(step_run *r, const instr *i);
uint64_t dp_norm_bytes(const rank_state *s, const program *p, const instr *i);

/* The number of tensors of a range that count in the norm on this rank and have elements in
 * [begin, begin + count); a copy does not count (tensor.copy). Pure. */
int dp_norm_count(const flat_range *range, size_t begin, size_t count);
/* sums (dp_norm_count, in device memory) = sums of squares of the gradients of these tensors in
 * [begin, begin + count), each in blocks of SUM_SQUARES_BLOCK; g points to the gradient of element `begin`.
 * Errors: the operator's own. Not collective. */
trine_status dp_norm_local(device *d, const flat_range *range, size_t begin, size_t count,
                           const void *g, double *sums);
/* The sum of n such numbers, in order; sums is in host memory. Pure. */
double dp_norm_add(const double *sums, int n);

/* This rank's results of a step: the sum of squares per unit, and its part of the loss. */
typedef struct {
    double *squares; /* (units); zero for units of other stages */
    double loss;     /* zero except on the last stage */
} dp_sums;

/* Doubles of scratch that dp_norm_global needs. Pure. */
size_t dp_norm_scratch(int units, trine_layout layout);

/* *squares and *loss = the global ones, bit-identical on every rank and for every pipeline depth:
 * squares are added in (unit, tp, dp) order, losses in dp order.
 * Errors: the collectives' own. Collective over: dp, tp and pp. */
trine_status dp_norm_global(const trine_mesh *mesh, const dp_sums *own, int units, double *scratch,
                            double *squares, double *loss);

#endif
