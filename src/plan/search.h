/* The fastest layouts of a model on a machine. Every combination of the values below that trine_config_check
 * accepts is a candidate, and no layout that could be among the best is skipped. Each has lower bounds of its step's
 * time and of its memory (plan/search_bound.h): what has no room by its bound is dropped, and the others are
 * simulated in the order of their time's bound, until it is above the time of the last of the best that fit.
 *
 * Cost: bounds of all candidates, and a rehearsal and a simulation for each whose bound is below the last of the
 * best. */
#ifndef TRINE_PLAN_SEARCH_H
#define TRINE_PLAN_SEARCH_H

#include "plan/forecast.h"
#include "trine.h"

/* What is searched. X(name, option). */
#define SEARCH_LIST(X)                                                                             \
    X(TP, "tp")                                                                                    \
    X(PP, "pp")                                                                                    \
    X(VIRTUAL, "num-virtual-stages-per-pipeline-rank")                                             \
    X(SCHEDULE, "schedule")                                                                        \
    X(ZERO, "zero")                                                                                \
    X(MICRO, "micro-batch-size")                                                                   \
    X(RECOMPUTE, "recompute-granularity")                                                          \
    X(SEQUENCE, "sequence-parallel")

typedef enum {
#define SEARCH_ENUM(name, option) SEARCH_##name,
    SEARCH_LIST(SEARCH_ENUM)
#undef SEARCH_ENUM
        SEARCH_DIMENSIONS
} search_dimension;

#define SEARCH_DEVICE (1u << SEARCH_DIMENSIONS) /* beside these in trine_run.plan_keeps: --device was given */

typedef struct {
    trine_config base; /* the model, the batch, precision, and the values of dimensions that are fixed; dp, 0: any */
    int ranks;
    unsigned fixed;    /* a set of 1 << search_dimension: not searched */
    forecast_rules rules;
    char *even;        /* (SEARCH_EVEN) room for pp_split: chunks of equally many layers; NULL: as base has them */
} search_space;

#define SEARCH_EVEN 8192

#define SEARCH_BEST 10
#define SEARCH_ALL  ((1u << SEARCH_DIMENSIONS) - 1)

typedef struct {
    int value[SEARCH_DIMENSIONS];
    double bound;               /* seconds */
    double step;                /* seconds; NAN: not simulated */
    size_t bytes;               /* of the heaviest rank, with what libraries take; not simulated: their bound */
    double where[FORECAST_PARTS]; /* seconds of the busiest stage */
} search_layout;

typedef struct {
    search_layout best[SEARCH_BEST]; /* the fastest first, all of which fit */
    int count;
    int valid, simulated, unfit; /* candidates; those that were simulated; of these, those without room; */
    int small;                   /* not simulated: no room, by the bound of memory */
    search_layout least;         /* where none fits: the one whose plan, or its bound, has the fewest bytes */
} search_result;

/* Bytes that a rank may take: the machine's, or less by base.parallel.memory. Pure. */
double search_room(const search_space *s);
/* Errors: TRINE_ENOMEM; TRINE_EINVAL if no candidate is valid, with the error of one. Not collective. */
trine_status search_layouts(const search_space *s, search_result *out);
/* One layout, whose values may be any: as search_layouts simulates it, whether it fits or not; step is NAN without
 * room. Errors: those of trine_config_check; TRINE_ENOMEM. Not collective. */
trine_status search_try(const search_space *s, search_layout *l, bool *fits);
/* The configuration of a layout: base with its values; pp_split may be s->even, which the next call writes. */
trine_config search_config(const search_space *s, const search_layout *l);
/* The layout that base has. Pure. */
search_layout search_base(const search_space *s);
/* ranks / (tp pp); 0: they do not divide. Pure. */
int search_dp(const search_space *s, const search_layout *l);
/* --tp 8 --pp 4 ... Pure. */
void search_print_options(const search_space *s, const search_layout *l, FILE *out);

#endif
