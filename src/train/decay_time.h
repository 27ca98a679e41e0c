/* A decay of the learning rate that ends with --max-minutes: --lr-decay-style wsd keeps the rate until the time that
 * is left is what the iterations of the decay need, at the mean pace of this process, with what it saves and
 * validates; then the decay begins, and the run ends with it. From there on the run is one of so many steps:
 * train_iters and lr_decay_iters of its configuration are those of the decay's end, and the rate follows from them as
 * in any run.
 *
 * Invariant: all ranks begin at the same step, and a checkpoint has it, so that a run that resumes in the decay has
 * the rates, and the end, of one that was not interrupted. */
#ifndef TRINE_TRAIN_DECAY_TIME_H
#define TRINE_TRAIN_DECAY_TIME_H

#include "ckpt/manifest.h"
#include "train/trainer.h"

/* After a step: begins the decay if time is short, and says so on `out` (NULL: nothing). One step more than the decay
 * has must still fit, since it may be slower than the mean. Errors: the collective's own. Collective over: world,
 * while a decay may begin by time. */
trine_status decay_time_step(trine_trainer *t, double max_minutes, FILE *out);

/* In a resumed run: goes on with a decay that had begun by time, if the schedule still is wsd. Not collective. */
void decay_time_restore(trine_trainer *t, const ckpt_state *saved);

/* Whether a decay that began by time has ended the run, which the limit does not stop any more: it may still
 * validate. Pure. */
bool decay_time_is_over(const trine_trainer *t);

/* The configuration of the run as it was asked for, without the end that time has set; strings are borrowed. Pure. */
trine_config decay_time_config(const trine_trainer *t);

#endif
