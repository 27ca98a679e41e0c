/* Options of the model that are valid and change nothing: a dropout that the family does not have, positions that no
 * file would have, a pattern of --freeze or --train that decides over no tensor. Sizes that no layer reads are
 * gpt_unread's. */
#ifndef TRINE_TRAIN_IDLE_H
#define TRINE_TRAIN_IDLE_H

#include "base/options.h"

/* Refuses them where the command line asks for them. saves: checkpoints are written. Errors: TRINE_EINVAL. Pure. */
trine_status idle_check(const options *o, const trine_model *m, bool saves);

#endif
