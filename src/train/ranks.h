/* Checks that all ranks of a job have the same options and data. The launcher gives all ranks one
 * command line, but a wrapper script, a node with other files under the same names, or a rank of
 * another job may differ: without this check such a job trains on wrong settings or hangs until the
 * watchdog aborts it. Each difference is reported with the ranks that have it (comm/api/alike.h).
 *
 * Cost: two collectives of 32 bytes at the start, and one in trine_trainer_load. */
#ifndef TRINE_TRAIN_RANKS_H
#define TRINE_TRAIN_RANKS_H

#include "train/trainer.h"

/* Compares the configuration before it is used; an invalid one is compared as given, so that a mistake
 * on one rank is not reported as everybody's. Errors: TRINE_EINVAL, on every
 * rank, with the message on rank 0; TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status ranks_agree_config(trine_world *world, const trine_config *config);

/* Compares the open training and validation files, and the vocabulary. Errors: as above, and
 * TRINE_EIO. Collective over: world. */
trine_status ranks_agree_data(const trine_trainer *t);

/* Compares the options for saving, stopping and loading; paths may differ by node. Errors: as above.
 * Collective over: world. */
trine_status ranks_agree_checkpoint(trine_world *world, const trine_checkpoint *c);

#endif
