/* What the ranks of a job must have alike before they work together: options and data. The launcher
 * gives all ranks one command line, but a wrapper script, a node with other files under the same
 * names, or a second job's rank may not: without this such a job trains something that nobody asked
 * for, or waits until the watchdog ends it. What differs is named, with the ranks that have it
 * (comm/api/alike.h).
 *
 * Cost: two collectives of 32 bytes at the start, and one in trine_trainer_load. */
#ifndef TRINE_TRAIN_RANKS_H
#define TRINE_TRAIN_RANKS_H

#include "train/trainer.h"

/* The configuration, before anything is done with it; one that cannot run is compared as it was
 * given, so that a rank's own mistake is not taken for all ranks'. Errors: TRINE_EINVAL, on every
 * rank, with the message on rank 0; TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status ranks_agree_config(trine_world *world, const trine_config *config);

/* The files of training and of validation, which are open, and the vocabulary. Errors: as above, and
 * TRINE_EIO. Collective over: world. */
trine_status ranks_agree_data(const trine_trainer *t);

/* When to save, to stop, and what to begin with; paths may differ by node. Errors: as above.
 * Collective over: world. */
trine_status ranks_agree_checkpoint(trine_world *world, const trine_checkpoint *c);

#endif
