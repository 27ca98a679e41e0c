/* Pipeline parallelism: the assignment of units to stages (split.c), the order of computation (order.c), split
 * backward passes (backward.c), messages between stages (messages.c), and the gradients of a token matrix that
 * two stages share (tie.c). Passes are pure: they build and rewrite programs (core/program.h). Each file also
 * has the functions that run its instructions and count their bytes.
 *
 * Schedules:
 *   naive   one micro-batch in flight in the whole pipeline; 1 slot
 *   gpipe   all forwards, then all backwards; M slots. Huang et al., "GPipe", 2019, section 2.3
 *   1f1b    warm-up, then one forward one backward; min(M, P - p) slots on stage p. Narayanan et
 *           al., "PipeDream-Flush" in "Memory-efficient pipeline-parallel DNN training", 2021, and
 *           Megatron-LM 2021, section 2.2
 * Invariant: every schedule runs backward passes in ascending order of micro-batches, so that gradients are
 * added in the same order and no bit depends on the schedule or the number of stages. */
#ifndef TRINE_PP_PP_H
#define TRINE_PP_PP_H

#include "state/step.h"

/* Both functions fill spec->first, one chunk per stage, from the spec's stages, units and facts. */

/* Splits the units into contiguous stages: minimises the cost of the most expensive stage, then the sum of
 * squared costs (which balances the others). cost (units): relative costs. Time: stages x units^2.
 * Errors: TRINE_EINVAL if there are fewer units than stages; TRINE_ENOMEM. Pure. */
trine_status pp_split_by_cost(program_spec *spec, const double cost[]);

/* Splits as the text says: "e,5,5,h" or "3,3" (see trine_parallel.pp_split). A letter is the first one of the
 * name of a unit without a number. Errors: TRINE_EINVAL. Pure. */
trine_status pp_split_by_hand(program_spec *spec, const char *text);

/* Activation slots that a stage needs. Pure. */
int pp_slots(trine_schedule schedule, int stages, int micros, int stage);

/* Appends the stage's LOAD, FORWARD and BACKWARD in the order of the spec's schedule, and sets
 * slots and streams. Errors: TRINE_ENOMEM. */
trine_status pp_order(program *p);

/* Pass: with spec->split_backward, splits every BACKWARD that can be split into BACKWARD_INPUT and
 * BACKWARD_WEIGHT. The BACKWARD_WEIGHTs follow the chunk's last BACKWARD_INPUT of the micro-batch, so that the
 * gradient for the previous stage is sent before them. Sets keeps: one per unit that splits, of the chunk with
 * the most of them. The bits are those of BACKWARD. Qi et al., "Zero bubble pipeline parallelism", ICLR 2024,
 * section 2. Errors: TRINE_ENOMEM. */
trine_status pp_split_backward(program *p);

/* Pass: inserts RECV_ACT, SEND_ACT, RECV_GRAD, SEND_GRAD around the stage's computation. For one queue it makes
 * a message group, as Megatron-LM does, of the two messages that the stages of an edge send each other at the
 * same time: SEND_ACT RECV_GRAD on one, RECV_ACT SEND_GRAD on the other.
 * Errors: TRINE_ENOMEM. */
trine_status pp_wire_messages(program *p);

/* Starts a message with the other rank of its edge. Errors: those of the transport. Not collective. */
trine_status pp_run_message(step_run *r, const instr *i);
/* Bytes that it sends. Pure. */
uint64_t pp_message_bytes(const rank_state *s, const program *p, const instr *i);

/* Pass: appends TIE on stages that have a tied token matrix. Errors: TRINE_ENOMEM. */
trine_status pp_wire_tie(program *p);

/* Adds the twin's gradient: if both are on this stage into the first; if the twin is on another stage, on both
 * stages. Errors: the transport's and the operator's own. Collective over: tie. */
trine_status pp_run_tie(step_run *r, const instr *i);
uint64_t pp_tie_bytes(const rank_state *s, const program *p, const instr *i);

/* The pipeline bubble, the fraction of a step that a stage waits if all stages cost the same: (P-1)/(M+P-1) for
 * gpipe and 1f1b, (P-1)/P for naive. Pure. */
double pp_bubble(trine_schedule schedule, int stages, int micros);

/* Draws the timeline of a step, one line per stage, from all stages' legal programs: a stage's forward pass of a
 * micro-batch takes one column, its backward pass two, messages none. Output is cut at 100 columns, with a note.
 * Returns the idle fraction of the step, NAN when out of memory. */
double pp_picture(const program *stages, FILE *out);

#endif
