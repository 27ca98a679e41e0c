/* Requests to stop a run before its last step: SIGINT, SIGTERM, SIGHUP or SIGUSR1 to any rank, or the time limit. The
 * signals' own thread (base/signals.h) keeps the number; after each step, and between the global batches of a
 * validation, the ranks compare, so that all of them stop at the same point. What a signal does depends on the
 * moment:
 *
 *   before the first step   there is nothing to save: the process says so and exits with TRINE_EXIT_REQUEUE
 *                           at once, wherever it is (in MPI_Init, waiting for a folder, reading a checkpoint)
 *   in a step, a save,      it is kept for stop_asked; if that takes longer than two seconds, a line on
 *   a validation            standard error says what is going on
 *   after the last one      it changes nothing: everything is saved
 *
 * A second SIGINT, SIGTERM or SIGHUP ends the process at once by its default action. (SIGUSR1 never does: batch
 * systems repeat it.)
 *
 * Invariant: the result is the same on every rank. Signals arrive at any time and clocks differ, so no
 * rank may act on its own flag. Cost: an all-reduce of one number per step or batch, when all ranks are at
 * its end anyway (docs/checkpoints.md has the figure); nothing in a run that cannot be stopped. */
#ifndef TRINE_TRAIN_STOP_H
#define TRINE_TRAIN_STOP_H

#include "trine_checkpoint.h"

/* Why a run stops: the largest reason over all ranks, and the lowest rank that has it. */
typedef struct {
    int signal; /* its number; 0: the time limit */
    int rank;
} stop_reason;

/* *stop = whether any rank received a signal since trine_stop_catch, or has run for max_minutes (0: no
 * limit) since then (without trine_stop_catch: since the first call). *why is set only if *stop.
 * Errors: the collectives' own. Collective over: world, if the run can be stopped at all. */
trine_status stop_asked(trine_comm *world, double max_minutes, bool *stop, stop_reason *why);

/* Seconds since trine_stop_catch, or without it since the first call of this or stop_asked. Not collective. */
double stop_elapsed(void);

/* From now on there is something to save; or no more. Not collective. */
void stop_training(void);
void stop_saved(void);

/* Whether this process received one of the signals since trine_stop_catch. Not collective. */
bool stop_heard(void);

#endif
