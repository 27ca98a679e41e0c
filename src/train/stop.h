/* When a run has to end before its last step: SIGTERM or SIGUSR1 to any one rank, or its time. The
 * handler, in a thread of its own, keeps the signal's number and nothing else; after each step, and
 * between the global batches of a validation, the ranks compare, so that all of them end at the same
 * place.
 *
 * Invariant: the answer is the same on every rank. Signals arrive at any time and clocks differ, so no
 * rank may act on its own flag. Cost: an all-reduce of one number a step or batch, while all ranks stand at
 * the end of it anyway (docs/checkpoints.md has the figure); nothing in a run that cannot be stopped. */
#ifndef TRINE_TRAIN_STOP_H
#define TRINE_TRAIN_STOP_H

#include "trine_checkpoint.h"

/* Why a run is to end: the largest reason of all ranks', and the lowest rank that has it. */
typedef struct {
    int signal; /* SIGTERM or SIGUSR1; 0: the time is over */
    int rank;
} stop_reason;

/* *stop = whether a rank was told to since trine_stop_catch, or has run for max_minutes (0: no limit)
 * since then (or, without it, since the first call of this). *why is set only then.
 * Errors: the collectives' own. Collective over: world, if there is anything that could stop it. */
trine_status stop_asked(trine_comm *world, double max_minutes, bool *stop, stop_reason *why);

/* Whether this process has been sent one of the signals since trine_stop_catch. Not collective. */
bool stop_heard(void);

#endif
