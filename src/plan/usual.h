/* The layouts that one would try first, beside the one that the search found: each is tried, whether it fits or not,
 * so that an answer says what they lose. Other layouts have the micro-batch and the recomputation of the best one, or
 * if they do not fit so, a micro-batch of 1 with full recomputation; and the best one is tried with one thing
 * changed. */
#ifndef TRINE_PLAN_USUAL_H
#define TRINE_PLAN_USUAL_H

#include "plan/search.h"

#define USUAL_MOST 16

typedef struct {
    char name[64];        /* "dp only, ZeRO-3" */
    search_layout layout;
    bool fits;
    char why[256];        /* "": it is valid; otherwise what trine_config_check says */
} usual_layout;

/* Tries them. Those that contradict what the search was given, and those that equal the best one or an earlier one,
 * are left out. Errors: TRINE_ENOMEM, TRINE_EPROGRAM. Not collective. */
trine_status usual_layouts(const search_space *s, const search_layout *best, usual_layout out[USUAL_MOST],
                           int *count);

/* The part of the stage's time that grows most from one layout to another, and by how many seconds; NULL: none does.
 * Pure. */
const char *usual_reason(const search_layout *from, const search_layout *to, double *seconds);

#endif
