/* Where a training program may be cut, so that a step runs in parts with other work between them: before NORM, when
 * all gradients are summed, and after it.
 *
 *   before   everything up to NORM. It changes no parameters
 *   NORM     may run again: it only reads gradients
 *   after    UPDATE and what follows it, with parameters and gradients alone
 *
 * So no stage waits at a cut for one that has not passed its own: every message is started before NORM on both of its
 * sides, since there are none behind it, and the sums over dp and tp that stand before NORM are the same on all ranks
 * that make them, which run one program. What is under way at a cut can be completed there. Nothing is computed from
 * parameters that a later part has changed, and no gradient changes behind NORM. */
#ifndef TRINE_CORE_CUT_H
#define TRINE_CORE_CUT_H

#include "core/program.h"

/* *norm = the position of NORM. For programs that the checker has found legal: it has proved that NORM is there
 * once, on all stages together. Errors: TRINE_EPROGRAM names stage and instruction of a program that cannot be
 * cut. Pure. */
trine_status cut_program(const program *p, int *norm);

#endif
