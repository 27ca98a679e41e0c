/* TEST np=0 */
/* The arrays of tests/mix/cover.c cover what they claim: combinations of values are counted from their rows by
 * four nested loops, independently of how the arrays were generated. */
#include "harness.h"
#include "options.h"

static cover_row rows[FULL_ROWS];

/* Of a layout that is combined with a schedule, only pp counts: values 0 to 3 for 1, 2, 4 and 8. */
static int value_of(int row, int option, bool stages) {
    int value = rows[row].value[option];
    return option == OPT_LAYOUT && stages ? __builtin_ctz((unsigned)option_layouts[value].pp)
                                          : value;
}

static bool occurs(int count, int a, int i, int b, int j, int c, int k) {
    bool stages = b == OPT_SCHEDULE || c == OPT_SCHEDULE;
    for (int n = 0; n < count; n++)
        if (value_of(n, a, stages) == i && rows[n].value[b] == j && rows[n].value[c] == k)
            return true;
    return false;
}

/* All values of three options; of one option if a == b == c, of a pair if b == c. */
static void expect_all(int count, int a, int b, int c) {
    bool stages = a == OPT_LAYOUT && (b == OPT_SCHEDULE || c == OPT_SCHEDULE);
    for (int i = 0; i < (stages ? 4 : option_sizes[a]); i++)
        for (int j = 0; j < option_sizes[b]; j++)
            for (int k = 0; k < option_sizes[c]; k++) {
                if (b == c && j != k) continue;
                if (!occurs(count, a, i, b, j, c, k))
                    fail_msg("no run has options %d %d %d with values %d %d %d", a, b, c, i, j, k);
            }
}

/* Every triple of (dp, tp or pp) x zero x recompute, and of the dimensions in use. */
static void expect_dimensions(int count) {
    for (int ranks = 1; ranks <= 8; ranks *= 2)
        for (int zero = 0; zero < 4; zero++)
            for (int recompute = 0; recompute < TRINE_RECOMPUTES; recompute++) {
                bool dp = false, tp = false, pp = false;
                for (int n = 0; n < count; n++) {
                    const int *v = rows[n].value;
                    trine_layout l = option_layouts[v[OPT_LAYOUT]];
                    if (v[OPT_ZERO] != zero || v[OPT_RECOMPUTE] != recompute) continue;
                    dp |= l.dp == ranks, tp |= l.tp == ranks, pp |= l.pp == ranks;
                }
                if (!dp || !tp || !pp) fail_msg("%d ranks, zero %d", ranks, zero);
            }
}

static void expect_uses(int count) {
    for (int used = 0; used < 8; used++)
        for (int zero = 0; zero < 4; zero++)
            for (int recompute = 0; recompute < TRINE_RECOMPUTES; recompute++) {
                bool found = false;
                for (int n = 0; n < count && !found; n++) {
                    const int *v = rows[n].value;
                    trine_layout l = option_layouts[v[OPT_LAYOUT]];
                    found = v[OPT_ZERO] == zero && v[OPT_RECOMPUTE] == recompute &&
                            (l.dp > 1) + 2 * (l.tp > 1) + 4 * (l.pp > 1) == used;
                }
                if (!found) fail_msg("dimensions in use %d, zero %d", used, zero);
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
    expect_uses(count);
    return count;
}

static void short_array(void **state) {
    (void)state;
    int count = make(false);
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++) expect_all(count, a, b, b);
}

static void full_array(void **state) {
    (void)state;
    int count = make(true);
    for (int a = 0; a < OPTIONS; a++)
        for (int b = a + 1; b < OPTIONS; b++)
            for (int c = b + 1; c < OPTIONS; c++) expect_all(count, a, b, c);
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
