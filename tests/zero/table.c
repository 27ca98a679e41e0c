/* TEST np=0 */
/* ZeRO as a table: placements, bytes and traffic against numbers worked by hand. */
#include "harness.h"

#include <math.h>

#include "zero/zero.h"

static void test_placements(void **state) {
    (void)state;
    static const struct {
        placement params, grads, optimizer;
        bool full_grads;
        zero_gather_when gather;
    } rows[] = {
        {REPLICATE, REPLICATE, REPLICATE, true, GATHER_NEVER},
        {REPLICATE, SHARD, SHARD, true, GATHER_AFTER_UPDATE},
        {REPLICATE, SHARD, SHARD, false, GATHER_AFTER_UPDATE},
        {SHARD, SHARD, SHARD, false, GATHER_BEFORE_USE},
    };
    for (int zero = 0; zero < 4; zero++) {
        const zero_row *row = zero_stage((trine_zero)zero);
        assert_int_equal(row->params, rows[zero].params);
        assert_int_equal(row->grads, rows[zero].grads);
        assert_int_equal(row->optimizer, rows[zero].optimizer);
        assert_int_equal(row->full_grads, rows[zero].full_grads);
        assert_int_equal(row->gather, rows[zero].gather);
    }
}

/* Bytes an element, fp32: 4 for the parameter, 4 for the gradient, 8 for two moments. */
static void test_bytes_each(void **state) {
    (void)state;
    static const struct {
        int d;
        double params, grads, optimizer;
    } cases[4][3] = {
        {{1, 4, 4, 8}, {4, 4, 4, 8}, {8, 4, 4, 8}},
        {{1, 4, 4, 8}, {4, 4, 4, 2}, {8, 4, 4, 1}},
        {{1, 4, 4, 8}, {4, 4, 1, 2}, {8, 4, 0.5, 1}},
        {{1, 4, 4, 8}, {4, 1, 1, 2}, {8, 0.5, 0.5, 1}},
    };
    for (int zero = 0; zero < 4; zero++)
        for (int n = 0; n < 3; n++) {
            zero_bytes b = zero_bytes_each((trine_zero)zero, cases[zero][n].d);
            /* Quotients by powers of two are exact. */
            assert_true(b.params == cases[zero][n].params);
            assert_true(b.grads == cases[zero][n].grads);
            assert_true(b.optimizer == cases[zero][n].optimizer);
        }
}

/* The paper's figure 1: 16, 8 + 8/d, 4 + 12/d and 16/d bytes a parameter in fp32. */
static void test_bytes_of_all(void **state) {
    (void)state;
    for (int d = 1; d <= 64; d++) {
        double want[] = {16, 8 + 8.0 / d, 4 + 12.0 / d, 16.0 / d};
        for (int zero = 0; zero < 4; zero++) {
            zero_bytes b = zero_bytes_each((trine_zero)zero, d);
            /* Sums of three quotients: a few roundings. */
            assert_true(fabs(b.params + b.grads + b.optimizer - want[zero]) < 1e-14);
        }
    }
}

/* 1200 elements on 4 ranks: every pass moves 3 x 300. With M = 5: 0 reduces once, as two passes; 1
 * reduces and gathers once; 2 reduces 5 times and gathers once; 3 reduces 5 times, gathers 10. */
static void test_traffic(void **state) {
    (void)state;
    assert_int_equal(zero_traffic(TRINE_ZERO_0, 1200, 4, 0, 1), 1800);
    assert_int_equal(zero_traffic(TRINE_ZERO_1, 1200, 4, 1, 1), 1800);
    assert_int_equal(zero_traffic(TRINE_ZERO_2, 1200, 4, 1, 5), 5400);
    assert_int_equal(zero_traffic(TRINE_ZERO_3, 1200, 4, 10, 5), 13500);
    for (int zero = 0; zero < 4; zero++)
        assert_int_equal(zero_traffic((trine_zero)zero, 1200, 1, 7, 7), 0);
    /* 20 billion elements do not fit in 32 bits. */
    assert_true(zero_traffic(TRINE_ZERO_1, 20000000000u, 2, 1, 1) == 20000000000u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placements),
        cmocka_unit_test(test_bytes_each),
        cmocka_unit_test(test_bytes_of_all),
        cmocka_unit_test(test_traffic),
    };
    return HARNESS_RUN_ALONE(tests);
}
