/* What a trainer is asked to load (trine_checkpoint): what the command line and trine_trainer_load refuse alike, and
 * the model that results. */
#ifndef TRINE_TRAIN_LOAD_REQUEST_H
#define TRINE_TRAIN_LOAD_REQUEST_H

#include "trine_checkpoint.h"

/* Whether the newest checkpoint of `save` is loaded. Pure. */
bool request_is_auto(const trine_checkpoint *c);

/* TRINE_EIO if a path that is to be loaded is not there: for what only looks at a run, and so would not find out by
 * loading. Not collective. */
trine_status request_is_there(const trine_checkpoint *c);

/* What is wrong with the request, number i of all rules; NULL: nothing. Pure. */
enum { REQUEST_RULES = 5 };
const char *request_fault(const trine_checkpoint *c, int i);

#endif
