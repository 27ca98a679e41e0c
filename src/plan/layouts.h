/* On which layout a run goes on when ranks are lost: a pure function of its configuration and of how many are left.
 * Considered are the valid layouts (trine_config_check) of at most so many ranks, with no deeper pipeline than was
 * asked for, whose bubble could take more than the ranks give; with --exact, those that have the bits of D x T ranks:
 *
 *     dp divides D, and tp is 1 or T / tp is a power of two; any pp
 *
 * The best one uses the most ranks; of those the best has the tp that was asked for, then the pp that was asked for,
 * then the larger dp, then the larger tp. No two are equally good, so everyone who asks gets the same answer. With
 * --memory a layout whose heaviest rank needs more is left out.
 *
 * A schedule file has the micro-batches and stages of one dp and one pp, which then stay as they were asked for. */
#ifndef TRINE_PLAN_LAYOUTS_H
#define TRINE_PLAN_LAYOUTS_H

#include "trine_types.h"

#define LAYOUTS_MOST 8

/* What the bits of a run with --exact depend on. */
typedef struct {
    bool exact;
    int lanes, parts; /* D: --exact-dp, or the micro-batches of a step; T: --exact-tp, or tp */
} layout_promise;

typedef struct {
    trine_layout at[LAYOUTS_MOST]; /* the best first */
    int count;
    int heavy; /* valid ones that would be in the list, but for --memory */
} layout_list;

/* `config` has passed trine_config_check. Pure. */
layout_promise layouts_promise(const trine_config *config);

/* The LAYOUTS_MOST best layouts of at most `ranks` ranks, from 1 to CHECK_CONFIG_MOST_RANKS. `config` has passed
 * trine_config_check with the layout that was asked for. Errors: with --memory those of rehearse. Not collective.
 * Cost: ranks checks of a layout, with --memory also a plan of each that may be among the best. */
trine_status layouts_find(const trine_config *config, int ranks, layout_list *out);

#endif
