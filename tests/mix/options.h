/* The options that the covering array of tests/mix/array.c and cover.c combines, as a problem for
 * tests/cover.h. Two arrays:
 *
 **   short   every pair of values of two options; and every triple of (ranks of a dimension, or set of
 *           dimensions in use) x ZeRO stage x recomputation: `make check`
 *   full    every triple of values of three options, and so of layout, ZeRO stage and
 *           recomputation: `make check-full`
 *
 * A layout is one option: all (dp, tp, pp) with 1, 2, 4 or 8 ranks. With a schedule only its pp is combined: a
 * schedule sees nothing else of it. */
#ifndef TRINE_TESTS_MIX_OPTIONS_H
#define TRINE_TESTS_MIX_OPTIONS_H

#include "cover.h"
#include "trine.h"

enum {
    OPT_LAYOUT,
    OPT_ZERO,
    OPT_SCHEDULE,
    OPT_CHUNKS, /* one or two per stage, where the schedule leaves a choice */
    OPT_TYPE,   /* fp32 on cpu, bf16 on ref, bf16 on cpu */
    OPT_SEQUENCE_PARALLEL,
    OPT_RECOMPUTE,
    OPT_DROPOUT,
    OPT_UNTIED,
    OPT_SPLIT_BACKWARD,
    OPT_BATCH,
    OPT_FAMILY, /* gpt2, llama, qwen2, qwen3; all but the first with fewer heads of keys and values than tp 8 */
    OPTIONS,
    OPT_PP = OPTIONS + 2 /* a column: log2 of the layout's pp */
};

enum { TYPE_FP32, TYPE_BF16_REF, TYPE_BF16_CPU, TYPES };

#define LAYOUTS    20
#define SHORT_ROWS 150
#define FULL_ROWS  600

static const int option_sizes[OPTIONS] = {
    LAYOUTS, 4, TRINE_SCHEDULES, 2, TYPES, 2, TRINE_RECOMPUTES, 2, 2, 2, 3, 4};

static trine_layout option_layouts[LAYOUTS];
/* By layout: the logarithm of each dimension, and a bit for each dimension with more than one rank. */
static int option_dp[LAYOUTS], option_tp[LAYOUTS], option_pp[LAYOUTS], option_used[LAYOUTS];

static cover_column option_columns[OPTIONS + 4];
static cover_demand option_demands[320];

static inline void option_make_layouts(void) {
    int n = 0;
    for (int sum = 0; sum <= 3; sum++)
        for (int tp = 0; tp <= sum; tp++)
            for (int pp = 0; pp <= sum - tp; pp++, n++) {
                int dp = sum - tp - pp;
                option_layouts[n] = (trine_layout){.dp = 1 << dp, .tp = 1 << tp, .pp = 1 << pp};
                option_dp[n] = dp, option_tp[n] = tp, option_pp[n] = pp;
                option_used[n] = (dp > 0) + 2 * (tp > 0) + 4 * (pp > 0);
            }
}

/* All combinations of 2 or 3 options in ascending order, of which layout is the first. */
static inline cover_demand option_demand(int count, int a, int b, int c) {
    bool scheduled = b == OPT_SCHEDULE || (count == 3 && c == OPT_SCHEDULE);
    return (cover_demand){count, {a == OPT_LAYOUT && scheduled ? OPT_PP : a, b, c}};
}

static inline int option_make_demands(bool full) {
    int n = 0;
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++) {
            option_demands[n++] = option_demand(2, a, b, 0);
            for (int c = b + 1; full && c < OPTIONS; c++)
                option_demands[n++] = option_demand(3, a, b, c);
        }
    for (int d = 0; d < 4; d++)
        option_demands[n++] = (cover_demand){3, {OPTIONS + d, OPT_ZERO, OPT_RECOMPUTE}};
    return n;
}

/* The tables are static: one problem at a time. */
static inline cover_problem option_problem(bool full) {
    cover_problem p = {.options = OPTIONS, .columns = option_columns, .demands = option_demands};
    int *const derived[4] = {option_dp, option_tp, option_pp, option_used};
    option_make_layouts();
    for (int i = 0; i < OPTIONS; i++) {
        p.sizes[i] = option_sizes[i];
        option_columns[i] = (cover_column){i, option_sizes[i], NULL};
    }
    for (int d = 0; d < 4; d++)
        option_columns[OPTIONS + d] = (cover_column){OPT_LAYOUT, d < 3 ? 4 : 8, derived[d]};
    p.demand_count = option_make_demands(full);
    return p;
}

#endif
