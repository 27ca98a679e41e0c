/* The checker: proves all stages' programs legal together, without MPI and without running them. It
 * steps them on core/machine.h, which waits as state/step.c does, with rendezvous sends (a send completes when
 * its receive is posted). It refuses, naming stage and instruction, if
 *
 *   - a FORWARD or BACKWARD is missing, duplicated or out of order (units within a micro-batch,
 *     micro-batches within a unit)
 *   - a buffer (slot, gradient stream, gather, reduce or keep buffer) does not hold what is read
 *   - a buffer is overwritten before its content is used
 *   - a send and a receive of one edge do not meet, or meet for different micro-batches
 *   - stages wait for each other (deadlock)
 *   - REDUCE, REDUCE_TP, TIE, NORM, UPDATE or GATHER are out of order at the end of a step, or gradients of
 *     micro-batches are not added in ascending order
 *   - a program declares buffers that it never uses
 *   - a message group has a single member, one that is not a message, or two neighbours
 *
 * In a program for ONE_QUEUE a message blocks its stage until the peer stage has reached its own, as TIE and
 * NORM do in every program; the messages of a group block together and are matched in any order. A deadlock
 * of this kind is refused with the cycle of stages.
 *
 * dp and tp ranks of a stage run the same program, so their collectives agree in order by construction, and
 * none of them can wait for ever unless its own stage does. This also holds for one queue: an order that
 * brings all stages to their end does so for all dp and tp ranks of each stage at once, and which operations
 * match does not depend on the order. So GATHER, REDUCE and tp's collectives may stand anywhere but inside a
 * message group.
 * Cost: linear in the number of instructions. It runs at every start. */
#ifndef TRINE_CORE_CHECK_H
#define TRINE_CORE_CHECK_H

#include "core/program.h"

/* Of a stage: the largest number of slots and streams in use at one time, and the number of collectives. And where
 * its program was refused, or where it waits for ever: the instruction, or the number of them at the end; else -1. */
typedef struct {
    int slots, streams;
    int gathers[CLASSES]; /* GATHER instructions, by class of the unit */
    int reduces[CLASSES];
    int refused, waits;
} check_facts;

struct stage_state; /* core/check_state.h */
/* The rule of an instruction: what it requires of its stage, and what it changes. */
typedef trine_status (*check_rule)(struct stage_state *s, const instr *i);

/* `stages` has spec->stages programs; facts (spec->stages) may be NULL, and are those of refused programs as well.
 * An instruction without a rule (NULL) may run once for each unit. run/compose.h has it with the rules of all parts.
 * Errors: TRINE_EPROGRAM, the message names stage, position and instruction; TRINE_ENOMEM, without facts. Pure. */
trine_status check_programs(const program *stages, const check_rule rules[INSTR_KINDS],
                            check_facts *facts);

#endif
