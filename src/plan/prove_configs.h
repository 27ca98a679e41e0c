/* What two configurations compute, proved from their programs before anything runs (core/prove.h): the same bits, the
 * same numbers in another order of additions, or something else. `trine-prove` prints it. */
#ifndef TRINE_PLAN_PROVE_CONFIGS_H
#define TRINE_PLAN_PROVE_CONFIGS_H

#include <stdio.h>

#include "core/prove.h"
#include "trine_types.h"

/* PROVED: there is one configuration. */
typedef enum { PROVE_PROVED, PROVE_EQUAL, PROVE_ORDER, PROVE_DIFFERENT } prove_verdict;

/* "equal up to order". Never NULL. Pure. */
const char *prove_verdict_text(prove_verdict verdict);

typedef struct {
    const trine_config *config;
    int ranks; /* 0: of the layout */
    bool unchecked; /* programs that the checker refuses are proved, too */
    const trine_run *run; /* for what --load and the like say; NULL: nothing is known of them */
    const prove_update_rule *update; /* in place of what the update declares, for tests; NULL: that */
} prove_side;

/* Proves `a` and, unless NULL, `b`, and prints to out (unless NULL) what a step of one adds in which order, or where
 * two begin to differ, and what is assumed: that what no option says (libraries, the processor) is the same, that
 * files which two name have the same contents, and that the update treats each element by itself, as it declares.
 * Every option has an answer in its row (option_bits): one that has none is never called equal. No data is read. The
 * verdict holds for any number of steps, since a step is a function of the parameters and the samples. Errors:
 * TRINE_EPROGRAM with the stage, the instruction and what is missing, counted twice or another's; those of
 * trine_config_check; TRINE_ENOMEM. Not collective. */
trine_status prove_configs(const prove_side *a, const prove_side *b, prove_verdict *verdict, FILE *out);

#endif
