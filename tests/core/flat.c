/* TEST np=0 */
/* Offsets of tensors in a flat range, computed by hand, and their initial values. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "core/flat.h"

static tensor shaped(const char *name, size_t parts, size_t rows, size_t cols) {
    tensor t = {.parts = parts,
                .rows = rows,
                .cols = cols,
                .global_rows = rows,
                .global_cols = cols,
                .init = INIT_NORMAL,
                .std = 0.02};
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

/* ---- Layout ---- */

/* counts 60, 64, 65, 1, 300 -> offsets 0, 64, 128, 256, 320; 620 used. */
static flat_range five(void) {
    static const size_t rows[] = {6, 8, 13, 1, 30}, cols[] = {10, 8, 5, 1, 10};
    flat_range range = {0};
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        tensor t = shaped(name, 1, rows[i], cols[i]);
        flat_add(&range, &t);
    }
    return range;
}

static void test_offsets(void **state) {
    (void)state;
    static const size_t offsets[] = {0, 64, 128, 256, 320};
    flat_range range = five();
    assert_int_equal(range.tensor_count, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(range.tensors[i].offset, offsets[i]);
    assert_int_equal(range.used, 620);
    tensor stacked = shaped("qkv", 3, 5, 7);
    assert_int_equal(tensor_count(&stacked), 105);
    flat_add(&range, &stacked);
    assert_int_equal(range.tensors[5].offset, 640);
    assert_int_equal(range.used, 745);
    tensor joined = shaped("k", 1, 5, 7); /* follows without padding */
    joined.joined = true;
    flat_add(&range, &joined);
    assert_int_equal(range.tensors[6].offset, 745);
    assert_int_equal(range.used, 780);
}

/* 620 elements as a multiple of 64 dp. */
static void test_padded_counts(void **state) {
    (void)state;
    static const struct {
        int dp;
        size_t count;
    } cases[] = {{1, 640},  {2, 640},  {3, 768},  {4, 768},   {5, 640},
                 {8, 1024}, {10, 640}, {11, 704}, {16, 1024}, {64, 4096}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        flat_range range = five();
        flat_finish(&range, cases[n].dp);
        assert_int_equal(range.count, cases[n].count);
        assert_int_equal(range.used, 620);
    }
    flat_range empty = {0};
    flat_finish(&empty, 4);
    assert_int_equal(empty.count, 0);
}

static void test_unit_count(void **state) {
    (void)state;
    flat_unit unit = {.ranges = {five(), five()}, .range_count = 2};
    flat_finish(&unit.ranges[0], 2);
    flat_finish(&unit.ranges[1], 3);
    assert_int_equal(flat_unit_trained(&unit), 640 + 768);
    unit.ranges[0].frozen = true;
    assert_int_equal(flat_unit_trained(&unit), 768);
    unit.ranges[0].frozen = false;
    unit.range_count = 1;
    assert_int_equal(flat_unit_trained(&unit), 640);
}

/* Tensor 2 is [128, 193). */
static void test_overlaps(void **state) {
    (void)state;
    static const struct {
        size_t begin, count;
        bool overlaps;
        size_t from, to;
    } cases[] = {
        {0, 640, true, 128, 193},  {128, 65, true, 128, 193}, {0, 128, false, 0, 0},
        {193, 100, false, 0, 0},   {192, 64, true, 192, 193}, {64, 65, true, 128, 129},
        {130, 10, true, 130, 140}, {128, 0, false, 0, 0},     {150, 0, false, 0, 0},
        {100, 50, true, 128, 150}, {180, 60, true, 180, 193}, {640, 0, false, 0, 0},
    };
    flat_range range = five();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        size_t from, to;
        bool overlaps = flat_overlap(&range.tensors[2], cases[n].begin, cases[n].count, &from, &to);
        assert_int_equal(overlaps, cases[n].overlaps);
        if (!overlaps) continue;
        assert_int_equal(from, cases[n].from);
        assert_int_equal(to, cases[n].to);
    }
}

/* Rows behind the last one of the whole matrix are padding. */
static void test_padding_is_not_real(void **state) {
    (void)state;
    static const struct {
        size_t parts, first_row, rows, global_rows, real;
    } cases[] = {{1, 0, 9, 9, 90}, {1, 0, 9, 7, 70}, {1, 5, 5, 7, 20},
                 {1, 5, 5, 5, 0},  {1, 9, 9, 7, 0},  {3, 4, 4, 8, 120}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        tensor t = shaped("t", cases[n].parts, cases[n].rows, 10);
        t.first_row = cases[n].first_row, t.global_rows = cases[n].global_rows;
        assert_int_equal(tensor_real(&t), cases[n].real);
    }
}

/* Neighbours that are summed over one group are one run, which ends where a slice does. */
static void test_runs_summed_over_tp(void **state) {
    (void)state;
    static const struct {
        size_t begin, count;
        flat_run runs[4]; /* up to one of nothing */
    } cases[] = {{0, 640, {{0, 128, false, 0}, {256, 257, true, 0}, {320, 620, false, 0}}},
                 {100, 200, {{100, 128, false, 0}, {256, 257, true, 0}}},
                 {128, 128, {{0}}},
                 {600, 40, {{600, 620, false, 0}}}};
    flat_range range = five();
    for (int i = 0; i < 5; i++) range.tensors[i].tp_partial = i != 2;
    range.tensors[3].in_part = true;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const flat_run *want = cases[n].runs;
        flat_run got;
        for (int next = 0;
             flat_next_tp_partial(&range, cases[n].begin, cases[n].count, &next, &got); want++)
            assert_true(got.from == want->from && got.to == want->to &&
                        got.in_part == want->in_part);
        assert_int_equal(want->to, 0);
    }
}

/* The slices of any dp cover every tensor once. */
static void test_slices_cover_tensors(void **state) {
    (void)state;
    for (int dp = 1; dp <= 12; dp++) {
        flat_range range = five();
        flat_finish(&range, dp);
        size_t slice = range.count / (size_t)dp;
        assert_int_equal(slice % FLAT_ALIGN, 0);
        for (int i = 0; i < range.tensor_count; i++) {
            size_t from, to, next = range.tensors[i].offset;
            for (int d = 0; d < dp; d++) {
                if (!flat_overlap(&range.tensors[i], (size_t)d * slice, slice, &from, &to))
                    continue;
                assert_int_equal(from, next);
                next = to;
            }
            assert_int_equal(next, range.tensors[i].offset + tensor_count(&range.tensors[i]));
        }
    }
}

/* ---- Initial values ---- */

/* A bias, a gain, three stacked matrices and a padded vocabulary of which 2 rows are not real. */
static flat_range values(void) {
    tensor bias = shaped("bias", 1, 1, 33), gain = shaped("gain", 1, 1, 65);
    tensor qkv = shaped("qkv", 3, 4, 6), vocab = shaped("vocab", 1, 9, 10);
    bias.init = INIT_ZERO;
    gain.init = INIT_ONE;
    vocab.global_rows = 7;
    flat_range range = {0};
    flat_add(&range, &bias);
    flat_add(&range, &gain);
    flat_add(&range, &qkv);
    flat_add(&range, &vocab);
    flat_finish(&range, 4);
    return range;
}

static float *initial_values(const flat_range *range, uint64_t seed) {
    float *all = malloc(range->count * sizeof *all);
    assert_non_null(all);
    flat_init(range, 0, seed, 0, range->count, all);
    return all;
}

static void test_initial_values(void **state) {
    (void)state;
    flat_range range = values();
    assert_int_equal(range.count, 512);
    float *all = initial_values(&range, 1);
    int zeros = 0;
    /* bias [0, 33), gain [64, 129), qkv [192, 264), vocab [320, 410), its last 20 are padding. */
    for (size_t i = 0; i < range.count; i++) {
        bool gain = i >= 64 && i < 129;
        bool normal = (i >= 192 && i < 264) || (i >= 320 && i < 390);
        if (gain)
            assert_true(all[i] == 1.0f);
        else if (!normal)
            assert_true(all[i] == 0.0f);
        else {
            zeros += all[i] == 0.0f;
            /* Eight deviations: none of 142 draws comes near. */
            assert_true(all[i] > -0.16f && all[i] < 0.16f);
        }
    }
    assert_int_equal(zeros, 0);
    free(all);
}

/* Initial values of any part equal those of the full range. */
static void test_pieces_equal_the_whole(void **state) {
    (void)state;
    flat_range range = values();
    float *all = initial_values(&range, 42), some[512];
    static const size_t counts[] = {1, 3, 64, 65, 128, 511};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (size_t begin = 0; begin + counts[n] <= range.count; begin++) {
            memset(some, 0xff, sizeof some);
            flat_init(&range, 0, 42, begin, counts[n], some);
            assert_memory_equal(some, all + begin, counts[n] * sizeof *some);
        }
    free(all);
}

/* Initial values depend on name and seed only: the same tensor at another offset is equal, others differ. */
static void test_values_follow_name_and_seed(void **state) {
    (void)state;
    tensor a = shaped("a", 1, 8, 8), b = shaped("b", 1, 8, 8);
    flat_range one = {0}, two = {0};
    flat_add(&one, &a);
    flat_add(&one, &b);
    flat_add(&two, &b);
    flat_add(&two, &a);
    flat_finish(&one, 1);
    flat_finish(&two, 1);
    float *first = initial_values(&one, 1), *swapped = initial_values(&two, 1),
          *other = initial_values(&one, 2);
    assert_memory_equal(first, swapped + 64, 64 * sizeof *first);
    assert_memory_equal(first + 64, swapped, 64 * sizeof *first);
    int same = 0;
    for (int i = 0; i < 128; i++) same += first[i] == other[i];
    for (int i = 0; i < 64; i++) same += first[i] == first[i + 64];
    assert_int_equal(same, 0);
    free(first);
    free(swapped);
    free(other);
}

/* A tp rank's shard of a stacked matrix (3 parts of 4 x 6) equals that part of the unsharded matrix. */
static void check_cut(tensor cut, const float *all) {
    flat_range range = {0};
    flat_add(&range, &cut);
    flat_finish(&range, 1);
    float *own = initial_values(&range, 7);
    for (size_t part = 0; part < 3; part++)
        for (size_t r = 0; r < cut.rows; r++)
            for (size_t c = 0; c < cut.cols; c++) {
                size_t here = (part * cut.rows + r) * cut.cols + c;
                size_t there = (part * 4 + cut.first_row + r) * 6 + cut.first_col + c;
                assert_true(own[here] == all[there]);
            }
    free(own);
}

static void test_shards_are_cuts_of_the_whole(void **state) {
    (void)state;
    tensor t = shaped("qkv", 3, 4, 6);
    flat_range range = {0};
    flat_add(&range, &t);
    flat_finish(&range, 1);
    float *all = initial_values(&range, 7);
    for (size_t tp = 1; tp <= 2; tp++)
        for (size_t rank = 0; rank < tp; rank++) {
            tensor rows = t, cols = t;
            rows.split = SPLIT_ROWS, rows.rows = 4 / tp, rows.first_row = rank * rows.rows;
            cols.split = SPLIT_COLS, cols.cols = 6 / tp, cols.first_col = rank * cols.cols;
            check_cut(rows, all);
            check_cut(cols, all);
        }
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_padded_counts),
        cmocka_unit_test(test_unit_count),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_padding_is_not_real),
        cmocka_unit_test(test_runs_summed_over_tp),
        cmocka_unit_test(test_slices_cover_tensors),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_pieces_equal_the_whole),
        cmocka_unit_test(test_values_follow_name_and_seed),
        cmocka_unit_test(test_shards_are_cuts_of_the_whole),
    };
    return HARNESS_RUN_ALONE(tests);
}
