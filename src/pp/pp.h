/* The pipeline dimension: which units a stage holds (split.c), in which order it computes
 * (order.c), and what it tells its neighbours (wire.c). All three are pure: they make and rewrite
 * programs (core/program.h); nothing here sends or computes.
 *
 * Schedules:
 *   naive   one micro-batch in flight in the whole pipeline; 1 slot
 *   gpipe   all forwards, then all backwards; M slots. Huang et al., "GPipe", 2019, section 2.3
 *   1f1b    warm-up, then one forward one backward; min(M, P - p) slots on stage p. Narayanan et
 *           al., "PipeDream-Flush" in "Memory-efficient pipeline-parallel DNN training", 2021, and
 *           Megatron-LM 2021, section 2.2
 * Invariant: backward visits micro-batches in ascending order in every schedule, so that gradients
 * are added in the same order and no bit depends on the schedule or the depth. */
#ifndef TRINE_PP_PP_H
#define TRINE_PP_PP_H

#include "core/program.h"

/* Costs of the units relative to each other, for the split. */
typedef struct {
    double embedding, block, head;
} pp_cost;

/* Splits `units` (embedding, blocks, head) into `stages` contiguous stages so that the most
 * expensive one is as cheap as possible, and then the sum of squares (which evens out the rest).
 * Fills first[stages + 1]. Cost: stages x units^2. Errors: TRINE_EINVAL when a stage would be
 * empty; TRINE_ENOMEM. Pure. */
trine_status pp_split_by_cost(int first[], int stages, int units, const pp_cost *cost);

/* Splits by hand: "e,5,5,h" or "3,3" (see trine_parallel.pp_split).
 * Errors: TRINE_EINVAL says what the text lacks. Pure. */
trine_status pp_split_by_hand(int first[], int stages, int units, const char *text);

/* Activation slots that a stage needs. Pure. */
int pp_slots(trine_schedule schedule, int stages, int micros, int stage);

/* Appends the stage's LOAD, FORWARD and BACKWARD in the order of the spec's schedule, and sets
 * slots and streams. Errors: TRINE_ENOMEM. */
trine_status pp_order(program *p);

/* Pass: adds RECV_ACT, SEND_ACT, RECV_GRAD, SEND_GRAD around the stage's computation. For one queue
 * it makes a group, as Megatron-LM does, of the two messages that both stages of an edge send each
 * other at the same time: SEND_ACT RECV_GRAD here, RECV_ACT SEND_GRAD there.
 * Errors: TRINE_ENOMEM. */
trine_status pp_wire_messages(program *p);

/* Pass: appends TIE on the stages that hold a user of a tied token matrix. Errors: TRINE_ENOMEM. */
trine_status pp_wire_tie(program *p);

/* The fraction of a step that a stage waits in a pipeline of equal stages: (P-1)/(M+P-1) for gpipe
 * and 1f1b, (P-1)/P for naive. Pure. */
double pp_bubble(trine_schedule schedule, int stages, int micros);

/* Draws who computes what when, one line a stage, from all stages' legal programs: a stage's
 * forward pass of a micro-batch takes one column, its backward pass two, messages none; what does
 * not fit in 100 columns is cut, and says so. Returns the idle fraction of the whole step, NAN
 * without memory. */
double pp_picture(const program *stages, FILE *out);

#endif
