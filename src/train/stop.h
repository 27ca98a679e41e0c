/* Requests to stop a run before its last step: SIGTERM or SIGUSR1 to any rank, or the time limit. The
 * signal handler, in its own thread, only stores the signal's number; after each step, and between the
 * global batches of a validation, the ranks compare, so that all of them stop at the same point.
 *
 * Invariant: the result is the same on every rank. Signals arrive at any time and clocks differ, so no
 * rank may act on its own flag. Cost: an all-reduce of one number per step or batch, when all ranks are at
 * its end anyway (docs/checkpoints.md has the figure); nothing in a run that cannot be stopped. */
#ifndef TRINE_TRAIN_STOP_H
#define TRINE_TRAIN_STOP_H

#include "trine_checkpoint.h"

/* Why a run stops: the largest reason over all ranks, and the lowest rank that has it. */
typedef struct {
    int signal; /* SIGTERM or SIGUSR1; 0: the time limit */
    int rank;
} stop_reason;

/* *stop = whether any rank received a signal since trine_stop_catch, or has run for max_minutes (0: no
 * limit) since then (without trine_stop_catch: since the first call). *why is set only if *stop.
 * Errors: the collectives' own. Collective over: world, if the run can be stopped at all. */
trine_status stop_asked(trine_comm *world, double max_minutes, bool *stop, stop_reason *why);

/* Whether this process received one of the signals since trine_stop_catch. Not collective. */
bool stop_heard(void);

#endif
