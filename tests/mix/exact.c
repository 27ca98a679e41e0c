/* TEST np=8 longer=exact timeout=7200 */
/* --exact gives the bits of one rank on every layout that it promises (docs/numbers.md), with the conditions of
 * tests/layouts.h. `make check` has a few rows; TRINE_FULL=1 (make check-full) a covering array of TRAINING_STEPS steps:
 * every triple of (ranks of each dimension, ZeRO stage, schedule, sequence parallelism, recomputation, type, dropout,
 * model family, D, T), every pair of these, of the layout, and of other options. Rows of the same layouts without the
 * mode, in the full array all, for few steps, show that the comparison can fail. */
#include "layouts.h"

#include <stdlib.h>

#include "options.h"

enum { STEPS = 3, PLAIN_STEPS = 2, ROWS = 600 };

/* Those after MAIN in pairs only. */
enum {
    LAYOUT,
    ZERO,
    ORDER,
    TYPE,
    SEQUENCE_PARALLEL,
    RECOMPUTE,
    DROPOUT,
    FAMILY,
    LANES_OF_STEP,
    PARTS,
    MAIN,
    UNTIED_HEAD = MAIN,
    TRANSPORT,
    BATCH, /* of one sample; of three, also with chunks of logits */
    SPLIT_BACKWARD,
    QUEUE,
    NODES,
    BUFFERS,
    EVAL,
    SPANS,
    EXACT_OPTIONS,
    DP = EXACT_OPTIONS,
    TP,
    PP,
    SCHEDULE,
    EXACT_COLUMNS
};

static const int sizes[EXACT_OPTIONS] = {
    LAYOUTS, 4, ORDERS, 4, 2, RECOMPUTE_CHOICES, 2, 4, 4, 4, 2, 2, 3, 2, 2, 3, 3, 2, DOCUMENTS};
static const int types[] = {LAYOUT_FP32, LAYOUT_BF16_REF, LAYOUT_BF16_CPU, LAYOUT_FP16_REF};

/* D for K micro-batches: K, K/2, dp, and the next that dp divides. */
static int lanes_of(int choice, int K, int dp) {
    int next = 2 * dp;
    while (next < K && K % next) next += dp;
    int all[] = {K, K / 2 % dp ? K : K / 2, dp, next < K ? next : K};
    return all[choice];
}

/* T of a tp: the promise is for tp 1, and T a power of two times tp. */
static int parts_of(int choice, int tp) {
    static const int of_one[] = {4, 3, 6, 1}, of_two[] = {4, 2, 8, 4};
    if (tp == 1) return of_one[choice];
    if (tp == 2) return of_two[choice];
    return choice % 2 && tp <= 4 ? 2 * tp : tp;
}

/* T divides the rows of a micro-batch: 8 or 24. */
static layout_run row_of(const int *v) {
    trine_layout l = option_layouts[v[LAYOUT]];
    int T = parts_of(v[PARTS], l.tp), K = T % 3 || 12 % l.dp ? 24 : 12;
    if (12 % l.dp && T % 3 == 0) T = 4;
    return layout_row(
        (layout_run){.layout = l,
                     .zero = v[ZERO],
                     .schedule = option_orders[v[ORDER]].schedule,
                     .virtual = option_chunks(v[ORDER], l.pp, false),
                     .type = types[v[TYPE]],
                     .sequence_parallel = v[SEQUENCE_PARALLEL],
                     .recompute = v[RECOMPUTE],
                     .dropout = v[DROPOUT],
                     .untied = v[UNTIED_HEAD],
                     .split_backward = v[SPLIT_BACKWARD],
                     .micros = K / l.dp,
                     .size = v[BATCH] || T % 3 == 0 ? 3 : 1,
                     .chunk = v[BATCH] == 2 ? 5 : 0,
                     .layers = 14,
                     .family = v[FAMILY],
                     .one_queue = v[QUEUE],
                     .transport = v[TRANSPORT] ? TRINE_TRANSPORT_MPI : TRINE_TRANSPORT_AUTO,
                     .nodes = v[NODES] ? v[NODES] + 1 : 0,
                     .buffers = option_buffers[v[BUFFERS]],
                     .eval = v[EVAL],
                     .documents = v[SPANS],
                     .exact = EXACT_ON,
                     .lanes = lanes_of(v[LANES_OF_STEP], K, l.dp),
                     .parts = T});
}

/* The same layout without the mode. */
static void add_plain(layout_run r) {
    r.exact = EXACT_OFF;
    r.eval = 0;
    layout_add(r);
}

/* ---- The array ------------------------------------------------------------------------------- */

static int column_values[EXACT_COLUMNS - EXACT_OPTIONS][LAYOUTS];
static cover_column columns[EXACT_COLUMNS];
static cover_demand demands[COVER_DEMANDS];

/* 1, 2, 3, 4, and 6 or 8 ranks. */
enum { RANKS = 5 };

static int ranks_value(int ranks) {
    return ranks <= 4 ? ranks - 1 : 4;
}

static void make_columns(void) {
    static const int of[] = {LAYOUT, LAYOUT, LAYOUT, ORDER};
    static const int count[] = {RANKS, RANKS, RANKS, TRINE_SCHEDULES};
    for (int n = 0; n < LAYOUTS; n++) {
        column_values[0][n] = ranks_value(option_layouts[n].dp);
        column_values[1][n] = ranks_value(option_layouts[n].tp);
        column_values[2][n] = ranks_value(option_layouts[n].pp);
    }
    for (int n = 0; n < ORDERS; n++) column_values[3][n] = option_orders[n].schedule;
    for (int i = 0; i < EXACT_OPTIONS; i++) columns[i] = (cover_column){i, sizes[i], NULL};
    for (int i = 0; i < 4; i++) columns[DP + i] = (cover_column){of[i], count[i], column_values[i]};
}

/* Triples have a layout's dimensions, one at a time, and an order's schedule. */
static int make_demands(void) {
    int n = 0;
    for (int a = 0; a < EXACT_OPTIONS; a++)
        for (int b = a + 1; b < EXACT_OPTIONS; b++) {
            if (a != LAYOUT || b != ORDER) demands[n++] = (cover_demand){2, {a, b}};
            for (int c = b + 1; a > LAYOUT && c < MAIN; c++)
                demands[n++] =
                    (cover_demand){3, {a == ORDER ? SCHEDULE : a, b == ORDER ? SCHEDULE : b, c}};
            for (int c = b + 1; a == LAYOUT && c < MAIN; c++)
                for (int dim = DP; dim <= PP; dim++)
                    demands[n++] = (cover_demand){
                        3, {dim, b == ORDER ? SCHEDULE : b, c == ORDER ? SCHEDULE : c}};
        }
    assert_true(n <= COVER_DEMANDS);
    return n;
}

static cover_row rows[ROWS];

static bool can_run(const layout_run *r) {
    if (r->type != LAYOUT_BF16_CPU || training_has_bf16()) return true;
    harness_skipped(HARNESS_NO_BF16);
    return false;
}

static int make_array(void) {
    cover_problem p = {.options = EXACT_OPTIONS, .columns = columns, .demands = demands};
    make_columns();
    for (int i = 0; i < EXACT_OPTIONS; i++) p.sizes[i] = sizes[i];
    p.demand_count = make_demands();
    int count = cover_make(&p, rows, ROWS);
    assert_int_equal(cover_missing(&p, rows, count), 0);
    return count;
}

static void add_array(void) {
    for (int i = make_array() - 1; i >= 0; i--) {
        layout_run r = row_of(rows[i].value);
        if (can_run(&r)) layout_add(r);
    }
}

/* Those in fp32 also with the mode, which must be near. */
static int add_plain_array(void) {
    int count = make_array();
    for (int i = 0; i < count; i++) {
        layout_run r = row_of(rows[i].value);
        if (can_run(&r)) add_plain(r);
        if (r.type == LAYOUT_FP32) layout_add(r);
    }
    return count;
}

/* ---- A few rows ------------------------------------------------------------------------------- */

static const layout_run few[] = {
    /* K 8, D 8, T 4. */
    {.layout = L(2, 2, 2),
     .zero = 1,
     .schedule = TRINE_INTERLEAVED,
     .virtual = 2,
     .dropout = 1,
     .sequence_parallel = 1,
     .micros = 4,
     .size = 1,
     .buffers = 2,
     .eval = 1,
     .lanes = 8,
     .parts = 4},
    {.layout = L(4, 1, 2),
     .zero = 3,
     .schedule = TRINE_1F1B,
     .virtual = 1,
     .dropout = 1,
     .recompute = TRINE_RECOMPUTE_FULL,
     .micros = 2,
     .size = 1,
     .buffers = 1,
     .lanes = 8,
     .parts = 4},
    /* K 8, D 4, T 4: two lanes of two micro-batches. */
    {.layout = L(2, 4, 1),
     .zero = 2,
     .schedule = TRINE_GPIPE,
     .virtual = 1,
     .untied = 1,
     .family = 1,
     .micros = 4,
     .size = 1,
     .chunk = 5,
     .buffers = 2,
     .one_queue = 1,
     .documents = DOCUMENTS_RESET,
     .lanes = 4,
     .parts = 4},
    /* K 6, D 3, T 6. */
    {.layout = L(1, 3, 2),
     .zero = 0,
     .schedule = TRINE_V_HALF,
     .virtual = 2,
     .type = LAYOUT_BF16_REF,
     .sequence_parallel = 1,
     .family = 2,
     .micros = 6,
     .size = 3,
     .buffers = 2,
     .lanes = 3,
     .parts = 6},
    {.layout = L(3, 1, 1),
     .zero = 3,
     .schedule = TRINE_1F1B,
     .virtual = 1,
     .type = LAYOUT_BF16_REF,
     .recompute = TRINE_RECOMPUTE_SELECTIVE,
     .family = 2,
     .micros = 2,
     .size = 3,
     .buffers = 2,
     .lanes = 3,
     .parts = 6},
    /* K 4, D 4, T 4. */
    {.layout = L(2, 1, 4),
     .zero = 0,
     .schedule = TRINE_ZB,
     .virtual = 1,
     .type = LAYOUT_FP16_REF,
     .split_backward = 1,
     .family = 3,
     .micros = 2,
     .size = 1,
     .transport = TRINE_TRANSPORT_MPI,
     .nodes = 2,
     .buffers = 2,
     .eval = 1,
     .documents = DOCUMENTS_RESET,
     .lanes = 4,
     .parts = 4},
    /* K 4, D 2, T 2: on the second stage a lane's first gradients come before the sum of the lane before. */
    {.layout = L(1, 2, 2),
     .zero = 1,
     .schedule = TRINE_ZB,
     .virtual = 1,
     .sequence_parallel = 1,
     .family = 3,
     .micros = 4,
     .size = 1,
     .buffers = 2,
     .lanes = 2,
     .parts = 2},
    /* K 2, D 2, T 8. */
    {.layout = L(1, 8, 1),
     .zero = 1,
     .schedule = TRINE_1F1B,
     .virtual = 1,
     .type = LAYOUT_BF16_CPU,
     .micros = 2,
     .size = 1,
     .buffers = 2,
     .lanes = 2,
     .parts = 8},
    {.layout = L(1, 2, 1),
     .zero = 2,
     .schedule = TRINE_1F1B,
     .virtual = 1,
     .type = LAYOUT_BF16_CPU,
     .sequence_parallel = 1,
     .micros = 2,
     .size = 1,
     .buffers = 2,
     .lanes = 2,
     .parts = 8},
};

static void add_few(void) {
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        layout_run r = few[i];
        r.exact = EXACT_ON;
        r = layout_row(r);
        if (!can_run(&r)) continue;
        layout_add(r);
        if (r.lanes > 3 && r.type == LAYOUT_FP32 && r.zero < 3) add_plain(r);
    }
}

static void equal_bits(void **state) {
    (void)state;
    add_few();
    layout_check(STEPS);
    assert_true(layout_differed() >= 2);
}

/* NCCL's own reductions have another order with every number of ranks. K 8, D 8 and 4. */
static const layout_run on_gpus[] = {
    {.layout = L(4, 1, 1), .zero = 1, .micros = 2, .nccl = 1, .lanes = 4},
    {.layout = L(2, 2, 1), .zero = 3, .micros = 4, .nccl = 2, .lanes = 8, .sequence_parallel = 1},
    {.layout = L(1, 4, 1), .zero = 0, .micros = 8, .nccl = 1, .lanes = 4},
};

static void equal_bits_on_gpus(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof on_gpus / sizeof *on_gpus; i++) {
        layout_run r = on_gpus[i];
        r.exact = EXACT_ON, r.type = LAYOUT_CUDA, r.transport = TRINE_TRANSPORT_NCCL;
        r.schedule = TRINE_1F1B, r.virtual = r.size = 1, r.buffers = r.layers = 2, r.parts = 4;
        layout_add(layout_row(r));
    }
    layout_check(2);
}

/* ---- With TRINE_FULL -------------------------------------------------------------------------- */

static void equal_bits_of_all(void **state) {
    (void)state;
    add_array();
    layout_check(TRAINING_STEPS);
}

/* Of all rows more than half: the others have one dp and tp. */
static void other_bits_without_it(void **state) {
    (void)state;
    int count = add_plain_array();
    layout_check(PLAIN_STEPS);
    assert_true(layout_differed() > count / 2);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bits),
        cmocka_unit_test(equal_bits_on_gpus),
        cmocka_unit_test(other_bits_without_it),
        cmocka_unit_test(equal_bits_of_all),
    };
    size_t count = getenv("TRINE_FULL") ? 4 : 2;
    return harness_run(argc, argv, "tests", tests, count);
}
