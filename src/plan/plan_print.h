/* What a search for layouts found, as text (trine-plan --ranks). */
#ifndef TRINE_PLAN_PLAN_PRINT_H
#define TRINE_PLAN_PLAN_PRINT_H

#include "plan/usual.h"

/* How well a hardware file predicts, which says what the ranges of times are. */
void plan_print_checked(const hardware *machine, const char *name, FILE *out);
/* The fastest layouts, a line each and one for where the time goes. */
void plan_print_best(const search_space *s, const search_result *r, FILE *out);
/* The error where no layout fits: TRINE_EINVAL, with the one that lacks least. */
trine_status plan_print_none(const search_space *s, const search_result *r);
/* What the usual others lose against the best one. */
void plan_print_usual(const search_space *s, const search_layout *best, const usual_layout *others, int count,
                      FILE *out);
/* How long a training on so many tokens takes. */
void plan_print_duration(const search_space *s, const search_layout *l, double tokens, FILE *out);

/* The command line that starts a run on a layout: the options of its configuration, of `run` and of its checkpoints
 * whose values differ from the defaults, and from `model`, which run->model or what is loaded brings; quoted for the
 * shell where they must be. */
void plan_print_command(const search_space *s, const search_layout *l, const trine_run *run,
                        const trine_model *model, FILE *out);

#endif
