/* The checker: proves all stages' programs legal together, without MPI and without running them. It
 * executes them symbolically with the waits of state/step.c (asked from program_operands) and
 * rendezvous sends (a send is done when its receive is posted), and refuses, naming stage and
 * instruction, when
 *
 *   - a FORWARD or BACKWARD is missing, doubled or out of order (units within a micro-batch,
 *     micro-batches within a unit)
 *   - a buffer does not hold what is read: slot, gradient stream, gather or reduce buffer
 *   - a buffer is overwritten before its content was used
 *   - a send and a receive of one edge do not meet, or meet for different micro-batches
 *   - stages wait for each other in a circle
 *   - REDUCE, REDUCE_TP, TIE, NORM, UPDATE, GATHER break the order at the end of a step, or the sums of
 *     micro-batches are added in another order than theirs
 *   - a program declares buffers that it never uses
 *   - a group has a member that is no message, stands alone or is with another neighbour
 *
 * In a program for ONE_QUEUE a message blocks its stage until the other side has come to its own,
 * as TIE and NORM do in every program; the messages of a group block together, and are matched in
 * any order. What would then wait in a circle is refused, and the circle is named.
 *
 * dp and tp ranks of a stage run the same program, so their collectives agree in order by
 * construction, and none of them can wait for another for ever unless its own stage does. That
 * holds for one queue, too: whatever order brings all stages to their end does so for all dp and tp
 * ranks of each stage at once, and which operations meet does not depend on the order. So GATHER,
 * REDUCE and tp's collectives may stand anywhere but inside a group.
 * Cost: linear in the number of instructions. It runs at every start. */
#ifndef TRINE_CORE_CHECK_H
#define TRINE_CORE_CHECK_H

#include "core/program.h"

/* The most that were in use at one time, and how many collectives were issued. */
typedef struct {
    int slots, streams;
    int gathers[CLASSES]; /* GATHER instructions, by class of the unit */
    int reduces[CLASSES];
} check_facts;

/* `stages` is spec->stages programs; facts (the same number) may be NULL.
 * Errors: TRINE_EPROGRAM, the message names stage, position and instruction; TRINE_ENOMEM. Pure. */
trine_status check_programs(const program *stages, check_facts *facts);

#endif
