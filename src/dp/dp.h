/* Data parallelism: the distribution of samples, with LOAD (batch.c), and gradient reduction (reduce.c). */
#ifndef TRINE_DP_DP_H
#define TRINE_DP_DP_H

#include "state/step.h"

/* Micro-batches per step: global / (micro x ranks), with the number of ranks that read different samples
 * (axes_of_samples). Errors: TRINE_EINVAL if it is not an integer. Pure. */
trine_status dp_micro_batches(int global_batch, int micro_batch, int ranks, int *out);

#endif
