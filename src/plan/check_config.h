/* Parts of trine_config_check for what looks for layouts. */
#ifndef TRINE_PLAN_CHECK_CONFIG_H
#define TRINE_PLAN_CHECK_CONFIG_H

#include "trine_types.h"

/* With more ranks a search for layouts would take noticeable time. */
#define CHECK_CONFIG_MOST_RANKS 100000

/* Whether `config` passes the checks of the layout with layout `l` on `ranks` ranks. Defaults are filled in as
 * trine_config_check does; what does not depend on the layout is not looked at. Pure. */
bool check_config_layout(const trine_config *config, trine_layout l, int ranks);

/* Gives the samples that are the program's their name in place of a path. Errors: TRINE_EINVAL if there is a path,
 * or no vocabulary. Pure. */
trine_status check_config_program(trine_config *c, bool train, bool validation);

/* trine_config_check that suggests no other layouts, for those who try many. */
trine_status check_config_alone(trine_config *config, int ranks);

/* trine_config_check that suggests layouts of `wanted` ranks, for those who check a layout on fewer. */
trine_status check_config_for(trine_config *config, int ranks, int wanted);

#endif
