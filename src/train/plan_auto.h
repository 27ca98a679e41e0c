/* --plan auto (trine_plan): the layout that a search of forecasts puts first (plan/search.h). */
#ifndef TRINE_TRAIN_PLAN_AUTO_H
#define TRINE_TRAIN_PLAN_AUTO_H

/* What trine_run.plan_keeps has of an option that is searched unless it is given, or that is --device; 0: of another
 * one. Pure. */
unsigned plan_auto_keeps(const char *option);

#endif
