/* With sequence parallelism a tp rank makes the gradients of norms and positions from its own rows:
 * addends (tensor.by_rows, core/flat.h), which are summed over tp once a step, when they have been
 * summed over dp, on the part that a rank owns.
 *
 * Invariant: after REDUCE_TP what is SPLIT_NONE is the same on all tp ranks again. Cost: two small
 * all-reduces a block. Korthikanti et al., MLSys 2023, section 4.2.2; Megatron-LM does the same in
 * its finalize_model_grads. */
#ifndef TRINE_TP_REDUCE_H
#define TRINE_TP_REDUCE_H

#include "core/flat.h"
#include "core/program.h"

/* Pass: appends a REDUCE_TP for every unit, if the spec has gradients by rows. Errors:
 * TRINE_ENOMEM. */
trine_status tp_reduce(program *p);

/* The next elements [*from, *to) of the range, counted from its start, that are to be summed and lie in
 * [begin, begin + count). *next is where to go on, 0 at first. False: there are no more. Pure. */
bool tp_run_next(const flat_range *range, size_t begin, size_t count, int *next, size_t *from,
                 size_t *to);

#endif
