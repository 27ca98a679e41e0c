/* Pipeline parallelism: the assignment of units to chunks (split.c) and of chunks to stages (place.c), the order of
 * computation (order.h has the interface of a schedule), messages between stages (messages.c), the order of receives
 * (receives.c), that of messages in one queue (one_queue.c), buffers (buffers.c), and the gradients of a token matrix
 * that two stages share (tie.c). Passes are pure: they build and rewrite programs (core/program.h). Files of
 * instructions also have the functions that run them and count their bytes. simulate.h says when each instruction
 * would run.
 *
 * Schedules:
 *   naive   one micro-batch in flight in the whole pipeline; 1 slot
 *   gpipe   all forwards, then all backwards; M slots. Huang et al., "GPipe", 2019, section 2.3
 *   1f1b    warm-up, then one forward one backward; min(M, P - p) slots on stage p. Narayanan et
 *           al., "PipeDream-Flush" in "Memory-efficient pipeline-parallel DNN training", 2021, and
 *           Megatron-LM 2021, section 2.2
 *   interleaved, zb, zbv, v-half, bfs: the files of these names; docs/schedules.md compares all
 * Invariant: every schedule runs backward passes in ascending order of micro-batches, so that gradients are
 * added in the same order and no bit depends on the schedule or the number of stages. */
#ifndef TRINE_PP_PP_H
#define TRINE_PP_PP_H

#include "state/step.h"

/* Sets the spec's chunks, their stages and parallel.split_backward as its schedule asks, with `virtual` chunks per
 * stage (0: as few as the schedule has), or as the schedule file says, for whose stages and micro-batches the spec
 * must be; spec->orders is then owned by the caller. Errors: TRINE_EINVAL; those of reading the file. */
trine_status pp_place_chunks(program_spec *spec, int virtual);
trine_status pp_place_file(program_spec *spec, int virtual, const char *path);
/* Frees the orders of a file. */
void pp_place_end(program_spec *spec);

/* Both functions fill spec->first for the spec's chunks (one per stage if spec->chunks is 0), from its stages, place,
 * units and facts. */

/* Splits the units into contiguous chunks: minimises the cost of the most expensive stage, then the sum of
 * squared costs of chunks (which balances the others). cost (units): relative costs. Time: chunks x units^2.
 * Errors: TRINE_EINVAL if there are fewer units than chunks; TRINE_ENOMEM. Pure. */
trine_status pp_split_by_cost(program_spec *spec, const double cost[]);

/* Splits as the text says: "e,5,5,h" or "3,3" (see trine_parallel.pp_split). A letter is the first one of the
 * name of a unit without a number. Errors: TRINE_EINVAL. Pure. */
trine_status pp_split_by_hand(program_spec *spec, const char *text);

/* *slots = activation slots that a stage needs in training. Errors: TRINE_ENOMEM. Pure. */
trine_status pp_slots(const program_spec *s, int stage, int *slots);

/* Pass: appends the stage's LOAD, FORWARD and backward instructions in the order of the spec's schedule. With
 * spec->parallel.split_backward, BACKWARD_INPUT and BACKWARD_WEIGHT replace the BACKWARD of units that allow it;
 * where the schedule has both in one action, the BACKWARD_WEIGHTs follow the chunk's last BACKWARD_INPUT, so that the
 * gradient for the previous stage is sent before them. The bits are those of BACKWARD. Qi et al., "Zero bubble
 * pipeline parallelism", ICLR 2024, section 2. Slots, streams and keep buffers are set by pp_buffers. Errors:
 * TRINE_ENOMEM. */
trine_status pp_order(program *p);

/* Pass over all stages, for QUEUES_PER_EDGE: receives in the order in which their messages are sent (receives.c). It
 * changes nothing where they are in that order, as those of all schedules by name are. Errors: TRINE_ENOMEM. */
trine_status pp_receives(program *stages);

/* Pass over all stages, for ONE_QUEUE: moves and groups messages until one queue for each stage suffices. Two stages
 * that send to each other exchange both messages in a message group where the messages are neighbours, as Megatron-LM
 * does: SEND_ACT RECV_GRAD on one, RECV_ACT SEND_GRAD on the other. Elsewhere a receive is started earlier.
 * Errors: TRINE_ENOMEM. */
trine_status pp_one_queue(program *stages);

/* Pass over all stages: that of the two which is for the spec's queue. Errors: TRINE_ENOMEM. */
trine_status pp_message_order(program *stages);

/* Pass over all stages: sets slots, streams and keep buffers (buffers.c). Errors: TRINE_ENOMEM. */
trine_status pp_buffers(program *stages);

#define PP_TIE_CHUNK ((size_t)1 << 18) /* elements that TIE exchanges at a time */

/* The pipeline bubble by the schedule's formula, the fraction of a step that a stage waits if all stages cost the
 * same; NAN: there is no formula for the schedule, for this shape, or for where its weight gradients stand. Pure. */
double pp_bubble(const program_spec *s);

/* The fraction of a step that stages wait in a simulation (pp/simulate.h) with the costs of pp_unit_cost; NAN when
 * out of memory. Pure. */
double pp_idle(const program *stages);

/* Draws the timeline of a step, one line per stage, from all stages' legal programs: a stage's forward pass of a
 * micro-batch takes one column, its backward pass two, messages none. Output is cut at 100 columns, with a note.
 * Returns the idle fraction of the step, NAN when out of memory. */
double pp_picture(const program *stages, FILE *out);

#endif
