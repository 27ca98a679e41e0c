/* Data parallelism: the distribution of samples, with LOAD (batch.c), and gradient reduction (reduce.c). */
#ifndef TRINE_DP_DP_H
#define TRINE_DP_DP_H

#include "state/step.h"

/* Micro-batches per step: global / (micro x ranks), with the number of ranks that read different samples
 * (axes_of_samples). Errors: TRINE_EINVAL if it is not an integer. Pure. */
trine_status dp_micro_batches(int global_batch, int micro_batch, int ranks, int *out);

/* The index in the global batch of sample b of micro-batch m on the d-th of these ranks. Pure. */
uint64_t dp_sample(int micro_batch, int ranks, int d, int m, int b);

/* Sets the numbers of this rank's samples in the step whose first sample is `first`. Pure. */
void dp_step_samples(const state_config *c, uint64_t first, step_io *io);

#endif
