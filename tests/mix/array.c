/* TEST np=0 plain */
/* The arrays of tests/mix/cover.c cover what they claim: combinations of values are counted from their rows by
 * four nested loops, independently of how the arrays were generated. */
#include "harness.h"
#include "options.h"

static cover_row rows[FULL_ROWS];

/* Of a layout that is combined with an order, only pp counts. */
static int value_of(int row, int option, bool stages) {
    int value = rows[row].value[option];
    return option == OPT_LAYOUT && stages ? option_layouts[value].pp : value;
}

static bool occurs(int count, int a, int i, int b, int j, int c, int k) {
    bool stages = b == OPT_ORDER || c == OPT_ORDER;
    for (int n = 0; n < count; n++)
        if (value_of(n, a, stages) == i && rows[n].value[b] == j && rows[n].value[c] == k)
            return true;
    return false;
}

/* All values of three options; of one option if a == b == c, of a pair if b == c. */
static void expect_all(int count, int a, int b, int c) {
    bool stages = a == OPT_LAYOUT && (b == OPT_ORDER || c == OPT_ORDER);
    for (int i = 0; i < (stages ? 9 : option_sizes[a]); i++)
        for (int j = 0; j < option_sizes[b]; j++)
            for (int k = 0; k < option_sizes[c]; k++) {
                if ((b == c && j != k) || (stages && (i == 0 || i == 5 || i == 7))) continue;
                if (!occurs(count, a, i, b, j, c, k))
                    fail_msg("no run has options %d %d %d with values %d %d %d", a, b, c, i, j, k);
            }
}

static bool has(const int *v, int option, int value) {
    return v[option] == value;
}

/* Every triple of (dp, tp or pp) x zero x recompute. */
static void expect_dimensions(int count) {
    static const int ranks[] = {1, 2, 3, 4, 6, 8};
    for (int i = 0; i < RANK_VALUES; i++)
        for (int zero = 0; zero < 4; zero++)
            for (int recompute = 0; recompute < RECOMPUTE_CHOICES; recompute++) {
                bool dp = false, tp = false, pp = false;
                for (int n = 0; n < count; n++) {
                    const int *v = rows[n].value;
                    trine_layout l = option_layouts[v[OPT_LAYOUT]];
                    if (!has(v, OPT_ZERO, zero) || !has(v, OPT_RECOMPUTE, recompute)) continue;
                    dp |= l.dp == ranks[i], tp |= l.tp == ranks[i], pp |= l.pp == ranks[i];
                }
                if (!dp || !tp || !pp) fail_msg("%d ranks, zero %d", ranks[i], zero);
            }
}

/* The dimensions in use x zero x another option. */
static void expect_uses(int count, int option) {
    for (int used = 0; used < 8; used++)
        for (int zero = 0; zero < 4; zero++)
            for (int value = 0; value < option_sizes[option]; value++) {
                bool found = false;
                for (int n = 0; n < count && !found; n++) {
                    const int *v = rows[n].value;
                    trine_layout l = option_layouts[v[OPT_LAYOUT]];
                    found = has(v, OPT_ZERO, zero) && has(v, option, value) &&
                            (l.dp > 1) + 2 * (l.tp > 1) + 4 * (l.pp > 1) == used;
                }
                if (!found) fail_msg("dimensions in use %d, zero %d, %d", used, zero, value);
            }
}

/* Each schedule in pipelines of one, two, few and many stages with each value of another option. */
static void expect_depths(int count, int option) {
    for (int depth = 0; depth < DEPTHS; depth++)
        for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
            for (int value = 0; value < option_sizes[option]; value++) {
                bool found = false;
                for (int n = 0; n < count && !found; n++) {
                    layout_run r = option_row(&rows[n], false);
                    int pp = r.layout.pp;
                    found = r.schedule == schedule && has(rows[n].value, option, value) &&
                            depth == (pp > 4   ? 3
                                      : pp > 2 ? 2
                                               : pp == 2);
                }
                if (!found) fail_msg("depth %d, schedule %d, %d", depth, schedule, value);
            }
}

/* Each number of ranks of each dimension, and each set of dimensions in use, with each value of an option. */
static void expect_dimension_pairs(int count, int option) {
    for (int value = 0; value < option_sizes[option]; value++) {
        unsigned dp = 0, tp = 0, pp = 0, used = 0;
        for (int n = 0; n < count; n++) {
            trine_layout l = option_layouts[rows[n].value[OPT_LAYOUT]];
            if (!has(rows[n].value, option, value)) continue;
            dp |= 1u << l.dp, tp |= 1u << l.tp, pp |= 1u << l.pp;
            used |= 1u << ((l.dp > 1) + 2 * (l.tp > 1) + 4 * (l.pp > 1));
        }
        const unsigned all = 0x15e; /* 1, 2, 3, 4, 6, 8 */
        if (dp != all || tp != all || pp != all || used != 0xff)
            fail_msg("option %d, value %d: dimensions %x %x %x %x", option, value, dp, tp, pp,
                     used);
    }
}

static int make(bool full) {
    cover_problem p = option_problem(full);
    int count = cover_make(&p, rows, full ? FULL_ROWS : SHORT_ROWS);
    assert_int_equal(cover_missing(&p, rows, count), 0);
    /* The count can fail: without its last row, the array misses a combination. */
    assert_true(cover_missing(&p, rows, count - 1) > 0);
    print_message("# %s: %d runs have %zu combinations\n", full ? "full" : "short", count,
                  cover_asked(&p));
    expect_dimensions(count);
    expect_uses(count, OPT_RECOMPUTE);
    expect_uses(count, OPT_BATCH);
    expect_depths(count, OPT_ZERO);
    expect_depths(count, OPT_QUEUE);
    return count;
}

static void short_array(void **state) {
    (void)state;
    static const int by_dimension[] = {OPT_TYPE, OPT_BATCH, OPT_WATCH};
    int count = make(false);
    for (int i = 0; i < 3; i++) expect_dimension_pairs(count, by_dimension[i]);
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++)
            if (a != OPT_LAYOUT || !option_by_dimension(b)) expect_all(count, a, b, b);
}

static void full_array(void **state) {
    (void)state;
    int count = make(true);
    for (int a = 0; a < MAIN_OPTIONS; a++)
        for (int b = a + 1; b < MAIN_OPTIONS; b++)
            for (int c = b + 1; c < MAIN_OPTIONS; c++) expect_all(count, a, b, c);
}

/* Generation is deterministic, so that all ranks of a job run the same array. */
static void deterministic(void **state) {
    (void)state;
    static cover_row again[FULL_ROWS];
    cover_problem p = option_problem(false);
    int count = cover_make(&p, rows, SHORT_ROWS), other = cover_make(&p, again, SHORT_ROWS);
    assert_int_equal(count, other);
    assert_memory_equal(rows, again, (size_t)count * sizeof *rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_array),
        cmocka_unit_test(full_array),
        cmocka_unit_test(deterministic),
    };
    return HARNESS_RUN_ALONE(tests);
}
