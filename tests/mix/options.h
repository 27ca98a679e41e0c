/* The rows of the matrix of layouts (tests/layouts.h), as covering arrays (tests/cover.h); tests/mix/array.c tests
 * that they cover what they claim. The main array combines OPTIONS options, in two sizes:
 *
 **   short   every pair of values of two options (of layout with type, batch and watch: of each dimension, and of the
 *           set of dimensions in use); every triple of (ranks of a dimension, or set of dimensions in use) x
 *           ZeRO stage x recomputation, of dimensions in use x ZeRO stage x batch, and of pipeline depth x schedule x
 *           (ZeRO stage, or one queue): `make check`
 *   full    every triple of values of the first MAIN_OPTIONS options, and so of layout, ZeRO stage and
 *           recomputation: `make check-full`
 *
 * A layout is one option: all (dp, tp, pp) with 1, 2, 3, 4, 6 or 8 ranks. With an order (a schedule with a number of
 * chunks per stage) only its pp is combined: an order sees nothing else of it. Two small arrays have pairs of the
 * options that concern messages: one with messages too large for a transport to copy, one with NCCL's queue. */
#ifndef TRINE_TESTS_MIX_OPTIONS_H
#define TRINE_TESTS_MIX_OPTIONS_H

#include <stdlib.h>

#include "cover.h"
#include "layouts.h"

enum {
    OPT_LAYOUT,
    OPT_ZERO,
    OPT_ORDER,
    OPT_TYPE,
    OPT_SEQUENCE_PARALLEL,
    OPT_RECOMPUTE,
    OPT_DROPOUT,
    OPT_UNTIED,
    OPT_SPLIT_BACKWARD,
    OPT_BATCH,
    OPT_FAMILY, /* gpt2, llama, qwen2, qwen3; all but the first with fewer heads of keys and values than tp 8 */
    MAIN_OPTIONS,
    OPT_QUEUE = MAIN_OPTIONS,
    OPT_TRANSPORT, /* as detected twice: a rank that waits for a message spins */
    OPT_SPLIT,
    OPT_NODES,
    OPT_BUFFERS,
    OPT_WATCH,
    OPT_EVAL,
    OPT_DOCUMENTS,
    OPTIONS,
    /* Columns. */
    COL_DP = OPTIONS,
    COL_TP,
    COL_PP,
    COL_USED,  /* set of dimensions of more than one rank */
    COL_DEPTH, /* one stage, two, 3 or 4, more */
    COL_SCHEDULE,
    COLUMNS
};

#define SHORT_ROWS 340
#define FULL_ROWS  2000

/* Those with three chunks per stage last. */
static const struct {
    int schedule, virtual;
} option_orders[] = {{TRINE_NAIVE, 1}, {TRINE_GPIPE, 1},  {TRINE_1F1B, 1},        {TRINE_INTERLEAVED, 1},
                     {TRINE_ZB, 1},    {TRINE_BFS, 1},    {TRINE_INTERLEAVED, 2}, {TRINE_ZB, 2},
                     {TRINE_ZBV, 2},   {TRINE_V_HALF, 2}, {TRINE_BFS, 2},         {TRINE_INTERLEAVED, 3},
                     {TRINE_ZB, 3},    {TRINE_BFS, 3}};

#define L(d, t, p) {.dp = (d), .tp = (t), .pp = (p)}
static const trine_layout option_layouts[] = {
    L(1, 1, 1), L(2, 1, 1), L(1, 2, 1), L(1, 1, 2), L(3, 1, 1), L(1, 3, 1), L(1, 1, 3), L(4, 1, 1),
    L(1, 4, 1), L(1, 1, 4), L(2, 2, 1), L(2, 1, 2), L(1, 2, 2), L(6, 1, 1), L(1, 6, 1), L(1, 1, 6),
    L(2, 3, 1), L(2, 1, 3), L(3, 2, 1), L(1, 2, 3), L(3, 1, 2), L(1, 3, 2), L(8, 1, 1), L(1, 8, 1),
    L(1, 1, 8), L(4, 2, 1), L(4, 1, 2), L(2, 4, 1), L(1, 4, 2), L(2, 1, 4), L(1, 2, 4), L(2, 2, 2)};

/* fp32 several times: its bound is the sharpest, and its runs take a third of the time of 16 bits on ref. */
static const int option_types[] = {LAYOUT_FP32, LAYOUT_BF16_REF,   LAYOUT_BF16_CPU, LAYOUT_BF16_GRADS, LAYOUT_FP16_REF,
                                   LAYOUT_FP32, LAYOUT_FP16_GRADS, LAYOUT_FP32,     LAYOUT_FP32};
static const int option_buffers[] = {2, 1, 3, 9};

enum {
    ORDERS = sizeof option_orders / sizeof *option_orders,
    LAYOUTS = sizeof option_layouts / sizeof *option_layouts,
    TYPE_VALUES = sizeof option_types / sizeof *option_types,
    BATCHES = 5,
    RANK_VALUES = 6,
    DEPTHS = 4
};

static const int option_sizes[OPTIONS] = {LAYOUTS, 4, ORDERS, TYPE_VALUES, 2, RECOMPUTE_CHOICES, 2, 2, 2, BATCHES,
                                          LAYOUT_FAMILIES, 2, 3, SPLITS, 3, 4, WATCHES, 2, DOCUMENTS};

/* By layout or order: the columns' values. */
static int option_values[COLUMNS - OPTIONS][LAYOUTS];
static cover_column option_columns[COLUMNS];
static cover_demand option_demands[512];

/* 0 to 5 for 1, 2, 3, 4, 6, 8. */
static inline int option_ranks(int ranks) {
    return ranks <= 4 ? ranks - 1 : ranks / 2 + 1;
}

static inline int option_depth(int pp) {
    return pp <= 2 ? pp - 1 : pp <= 4 ? 2 : 3;
}

/* A new schedule needs a row of its own. */
static inline void option_check_orders(void) {
    for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++) {
        int n = 0;
        while (n < ORDERS && option_orders[n].schedule != schedule) n++;
        if (n == ORDERS) fail_msg("tests/mix/options.h: option_orders lacks schedule %d", schedule);
    }
}

static inline void option_make_columns(void) {
    static const int sizes[] = {RANK_VALUES, RANK_VALUES, RANK_VALUES, 8, DEPTHS, TRINE_SCHEDULES};
    for (int n = 0; n < LAYOUTS; n++) {
        trine_layout l = option_layouts[n];
        option_values[0][n] = option_ranks(l.dp);
        option_values[1][n] = option_ranks(l.tp);
        option_values[2][n] = option_ranks(l.pp);
        option_values[3][n] = (l.dp > 1) + 2 * (l.tp > 1) + 4 * (l.pp > 1);
        option_values[4][n] = option_depth(l.pp);
    }
    for (int n = 0; n < ORDERS; n++) option_values[5][n] = option_orders[n].schedule;
    for (int i = 0; i < OPTIONS; i++) option_columns[i] = (cover_column){i, option_sizes[i], NULL};
    for (int i = OPTIONS; i < COLUMNS; i++)
        option_columns[i] = (cover_column){i == COL_SCHEDULE ? OPT_ORDER : OPT_LAYOUT, sizes[i - OPTIONS],
                                           option_values[i - OPTIONS]};
}

/* All combinations of 2 or 3 options in ascending order, of which layout is the first. */
static inline cover_demand option_demand(int count, int a, int b, int c) {
    bool ordered = b == OPT_ORDER || (count == 3 && c == OPT_ORDER);
    return (cover_demand){count, {a == OPT_LAYOUT && ordered ? COL_PP : a, b, c}};
}

/* In the short array a layout meets these dimension by dimension. */
static inline bool option_by_dimension(int option) {
    return option == OPT_TYPE || option == OPT_BATCH || option == OPT_WATCH;
}

static inline int option_make_demands(bool full) {
    static const cover_demand triples[] = {
        {3, {COL_DP, OPT_ZERO, OPT_RECOMPUTE}},    {3, {COL_TP, OPT_ZERO, OPT_RECOMPUTE}},
        {3, {COL_PP, OPT_ZERO, OPT_RECOMPUTE}},    {3, {COL_USED, OPT_ZERO, OPT_RECOMPUTE}},
        {3, {COL_USED, OPT_ZERO, OPT_BATCH}},      {3, {COL_DEPTH, COL_SCHEDULE, OPT_ZERO}},
        {3, {COL_DEPTH, COL_SCHEDULE, OPT_QUEUE}},
    };
    int n = 0;
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++) {
            bool parts = !full && a == OPT_LAYOUT && option_by_dimension(b);
            if (!parts) option_demands[n++] = option_demand(2, a, b, 0);
            for (int d = COL_DP; parts && d <= COL_USED; d++) option_demands[n++] = (cover_demand){2, {d, b}};
            for (int c = b + 1; full && c < MAIN_OPTIONS; c++) option_demands[n++] = option_demand(3, a, b, c);
        }
    for (size_t i = 0; i < sizeof triples / sizeof *triples; i++) option_demands[n++] = triples[i];
    return n;
}

/* The tables are static: one problem at a time. */
static inline cover_problem option_problem(bool full) {
    cover_problem p = {.options = OPTIONS, .columns = option_columns, .demands = option_demands};
    option_check_orders();
    option_make_columns();
    for (int i = 0; i < OPTIONS; i++) p.sizes[i] = option_sizes[i];
    p.demand_count = option_make_demands(full);
    return p;
}

/* Three chunks per stage only where 14 layers are enough, and in the full array. */
static inline int option_chunks(int order, int pp, bool full) {
    int virtual = option_orders[order].virtual;
    return virtual == 3 && pp * virtual > 16 && !full ? 2 : virtual;
}

/* Micro-batches: fewer than stages, as many, more; the third in chunks of logits. */
static inline layout_run option_row(const cover_row *row, bool full) {
    const int *v = row->value;
    trine_layout l = option_layouts[v[OPT_LAYOUT]];
    const int micros[BATCHES] = {5, 1, 3, l.pp, l.pp < 6 ? 2 * l.pp + 1 : l.pp + 1}, sizes[BATCHES] = {1, 1, 3, 1, 1};
    return layout_row((layout_run){.layout = l,
                                   .zero = v[OPT_ZERO],
                                   .schedule = option_orders[v[OPT_ORDER]].schedule,
                                   .virtual = option_chunks(v[OPT_ORDER], l.pp, full),
                                   .type = option_types[v[OPT_TYPE]],
                                   .sequence_parallel = v[OPT_SEQUENCE_PARALLEL],
                                   .recompute = v[OPT_RECOMPUTE],
                                   .dropout = v[OPT_DROPOUT],
                                   .untied = v[OPT_UNTIED],
                                   .split_backward = v[OPT_SPLIT_BACKWARD],
                                   .micros = micros[v[OPT_BATCH]],
                                   .size = sizes[v[OPT_BATCH]],
                                   .chunk = v[OPT_BATCH] == 2 ? 5 : 0,
                                   .family = v[OPT_FAMILY],
                                   .one_queue = v[OPT_QUEUE],
                                   .transport = v[OPT_TRANSPORT] == 2 ? TRINE_TRANSPORT_MPI : TRINE_TRANSPORT_AUTO,
                                   .split = v[OPT_SPLIT],
                                   .nodes = v[OPT_NODES] ? v[OPT_NODES] + 1 : 0,
                                   .buffers = option_buffers[v[OPT_BUFFERS]],
                                   .watch = v[OPT_WATCH],
                                   .eval = v[OPT_EVAL],
                                   .documents = v[OPT_DOCUMENTS]});
}

#endif
