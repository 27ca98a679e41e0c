/* The pipeline dimension: which units a stage holds (split.c), in which order it computes
 * (order.c), what it tells its neighbours (messages.c), and how the gradients of a matrix that two stages
 * have become one (tie.c). Passes are pure: they make and rewrite programs (core/program.h). Beside each
 * stands what its instructions do, and their bytes.
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

#include "state/step.h"

/* Both of these fill spec->first, one chunk a stage, from the spec's stages, units and facts. */

/* Splits the units into contiguous stages so that the most expensive one is as cheap as possible, and
 * then the sum of squares (which evens out the rest). cost (units): of the units, relative to each
 * other. Cost: stages x units^2. Errors: TRINE_EINVAL when a stage would be empty; TRINE_ENOMEM. Pure. */
trine_status pp_split_by_cost(program_spec *spec, const double cost[]);

/* Splits by hand: "e,5,5,h" or "3,3" (see trine_parallel.pp_split). A letter is the first one of the name
 * of a unit without a number.
 * Errors: TRINE_EINVAL says what the text lacks. Pure. */
trine_status pp_split_by_hand(program_spec *spec, const char *text);

/* Activation slots that a stage needs. Pure. */
int pp_slots(trine_schedule schedule, int stages, int micros, int stage);

/* Appends the stage's LOAD, FORWARD and BACKWARD in the order of the spec's schedule, and sets
 * slots and streams. Errors: TRINE_ENOMEM. */
trine_status pp_order(program *p);

/* Pass: splits every BACKWARD that may be (spec->split_backward) into BACKWARD_INPUT and BACKWARD_WEIGHT; the
 * latter follow the chunk's last part of the same micro-batch, so that the gradient that goes on is sent before
 * them. Sets keeps: one for each unit of the longest chunk that splits. The bits are those of BACKWARD. Qi et
 * al., "Zero bubble pipeline parallelism", ICLR 2024, section 2. Errors: TRINE_ENOMEM. */
trine_status pp_split_backward(program *p);

/* Pass: adds RECV_ACT, SEND_ACT, RECV_GRAD, SEND_GRAD around the stage's computation. For one queue
 * it makes a group, as Megatron-LM does, of the two messages that both stages of an edge send each
 * other at the same time: SEND_ACT RECV_GRAD here, RECV_ACT SEND_GRAD there.
 * Errors: TRINE_ENOMEM. */
trine_status pp_wire_messages(program *p);

/* Starts a message with the other rank of its edge. Errors: those of the transport. Not collective. */
trine_status pp_run_message(step_run *r, const instr *i);
/* Bytes that it hands to its group. Pure. */
uint64_t pp_message_bytes(const rank_state *s, const program *p, const instr *i);

/* Pass: appends TIE on the stages that hold a user of a tied token matrix. Errors: TRINE_ENOMEM. */
trine_status pp_wire_tie(program *p);

/* Adds the twin's gradient: on this stage into the first of both, from another stage on both. Errors: the
 * transport's and the operator's own. Collective over: tie. */
trine_status pp_run_tie(step_run *r, const instr *i);
uint64_t pp_tie_bytes(const rank_state *s, const program *p, const instr *i);

/* The fraction of a step that a stage waits in a pipeline of equal stages: (P-1)/(M+P-1) for gpipe
 * and 1f1b, (P-1)/P for naive. Pure. */
double pp_bubble(trine_schedule schedule, int stages, int micros);

/* Draws who computes what when, one line a stage, from all stages' legal programs: a stage's
 * forward pass of a micro-batch takes one column, its backward pass two, messages none; what does
 * not fit in 100 columns is cut, and says so. Returns the idle fraction of the whole step, NAN
 * without memory. */
double pp_picture(const program *stages, FILE *out);

#endif
