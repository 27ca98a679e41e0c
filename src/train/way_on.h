/* How to go on with a run that dies: a line below the report of its end (api/observe.h). */
#ifndef TRINE_TRAIN_WAY_ON_H
#define TRINE_TRAIN_WAY_ON_H

#include "train/trainer.h"

/* For the newest checkpoint of this run, after a load and after each save. Nothing is said of a run without one.
 * Cost: a text. Not collective. */
void way_on_set(const trine_trainer *t, const trine_checkpoint *c);

#endif
