/* The specification of every operator: plain loops in the order of the formulas in ops.h. Sums
 * and functions are computed in double and rounded to float once, when they are stored, so that ref
 * is the nearest thing to the exact result of its float inputs, and another table's distance from
 * it is that table's own rounding. Only what adds element by element (bias and residual, embedding,
 * position, add) does so in float.
 *
 * Invariant: no threads, no state, no allocation; one operator (or forward and backward pair) a
 * file. Cost: about one multiplication a nanosecond; for tests and small models. */
#ifndef TRINE_DEVICE_REF_REF_H
#define TRINE_DEVICE_REF_REF_H

#include "device/ops.h"

/* A function of exactly the type that the table asks for. */
#define REF(op) __typeof__(*((ops *)0)->op) ref_##op

REF(linear_forward);
REF(linear_backward_input);
REF(linear_backward_weight);
REF(bias_residual);
REF(dropout_residual);
REF(dropout);
REF(bias_backward);
REF(norm_forward);
REF(norm_backward);
REF(gelu_forward);
REF(gelu_backward);
REF(attention_forward);
REF(attention_backward);
REF(attention_workspace);
REF(embedding_forward);
REF(embedding_backward);
REF(position_forward);
REF(position_backward);
REF(xent_max);
REF(xent_sums);
REF(xent_loss);
REF(xent_backward);
REF(add);
REF(sum_squares);
REF(adamw);

#undef REF

#endif
