/* The values of a run's options and of a request for checkpoints, which a program may have filled in itself. */
#ifndef TRINE_CONFIG_CHECK_RUN_H
#define TRINE_CONFIG_CHECK_RUN_H

#include "trine_types.h"

/* Whether the numbers, choices and strings of both (NULL: without) are in the ranges of their rows; a string may be
 * NULL. Errors: TRINE_EINVAL names one that is not, with its value. Pure. */
trine_status config_check_run(const trine_run *run, const trine_checkpoint *checkpoint);

#endif
