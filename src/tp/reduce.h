/* With sequence parallelism a tp rank computes the gradients of norms and positions from its own rows.
 * These gradients are partial over tp (tensor.tp_partial, core/flat.h). They are summed over tp once a
 * step, after the sum over dp, on the part that a rank owns.
 *
 * Invariant: after REDUCE_TP the gradients of SPLIT_NONE tensors are the same on all tp ranks. Cost: two
 * small all-reduces per block. Korthikanti et al., MLSys 2023, section 4.2.2; Megatron-LM does the same
 * in its finalize_model_grads. */
#ifndef TRINE_TP_REDUCE_H
#define TRINE_TP_REDUCE_H

#include "state/step.h"

/* Pass: appends a REDUCE_TP for every unit if the spec has gradients that are partial over tp. Errors:
 * TRINE_ENOMEM. */
trine_status tp_reduce(program *p);

/* Errors: the transport's own. Collective over: tp. */
trine_status tp_run_reduce(step_run *r, const instr *i);
/* Bytes that the instruction passes to its group. Pure. */
uint64_t tp_reduce_bytes(const rank_state *s, const program *p, const instr *i);

#endif
