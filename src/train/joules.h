/* The energy of a step, of all machines that the ranks are on: the first rank of each machine reads its counters
 * (base/energy.h), also where --ranks-per-node makes several nodes of one. */
#ifndef TRINE_TRAIN_JOULES_H
#define TRINE_TRAIN_JOULES_H

#include "train/trainer.h"

/* t->joules: opened, and t->measures is true on all ranks, if the counters of every machine can be read: a sum over
 * some of them would mean nothing. Errors: TRINE_ENOMEM, the collectives' own. Collective over: world. */
trine_status joules_open(trine_trainer *t);
void joules_close(trine_trainer *t);

/* Around a step. *joules = those of all machines between the two calls; 0 without t->measures, or if a counter could
 * not be read. Errors: the collectives' own. joules_end is collective over: world. */
void joules_begin(trine_trainer *t);
trine_status joules_end(trine_trainer *t, double *joules);

#endif
