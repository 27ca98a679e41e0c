/* --epochs: the number of training steps follows from the token files, by the samples and epochs that the banner has
 * (data/blend.h). */
#ifndef TRINE_PLAN_EPOCHS_H
#define TRINE_PLAN_EPOCHS_H

#include "data/blend.h"
#include "trine.h"

/* Replaces config->epochs by train_iters, the fewest steps in which each source of `samples` (after blend_order) has
 * been read so often, and checks the configuration again, which has passed trine_config_check. Nothing without
 * epochs. Errors: TRINE_EINVAL for a stream, for sources that need different numbers of steps, and for too many
 * steps; those of trine_config_check. Pure. */
trine_status epochs_resolve(trine_config *config, const blend *samples, int ranks);
/* The same for who has not opened the token files. Of those that cannot be opened the steps stay open: a training
 * names them. The vocabulary is known. Errors: also those of blend_order. Not collective. */
trine_status epochs_resolve_of_files(trine_config *config, int ranks);

#endif
