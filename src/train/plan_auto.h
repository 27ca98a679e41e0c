/* --plan auto (trine_plan): the layout that a search of forecasts puts first (plan/search.h). */
#ifndef TRINE_TRAIN_PLAN_AUTO_H
#define TRINE_TRAIN_PLAN_AUTO_H

#include "trine_types.h"

/* What trine_run.plan_keeps has of an option that is searched unless it is given, or that is --device; 0: of another
 * one. Pure. */
unsigned plan_auto_keeps(const char *option);

/* Sets c->model.vocab_size from the token files where it is 0. Errors: TRINE_EINVAL without either; those of
 * blend_open. Not collective. */
trine_status plan_auto_vocabulary(trine_config *c);

#endif
