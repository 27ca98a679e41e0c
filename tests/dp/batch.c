/* TEST np=0 */
/* The distribution of samples. */
#include "harness.h"

#include <string.h>

#include "dp/dp.h"

static void test_micro_batches(void **state) {
    (void)state;
    static const struct {
        int global, micro, dp, count;
    } cases[] = {
        {1, 1, 1, 1}, {32, 4, 2, 4}, {32, 4, 8, 1}, {12, 1, 3, 4}, {2147483647, 1, 1, 2147483647}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        int count = -1;
        OK(dp_micro_batches(cases[n].global, cases[n].micro, cases[n].dp, &count));
        assert_int_equal(count, cases[n].count);
    }
    int count;
    REFUSED(dp_micro_batches(30, 4, 2, &count), TRINE_EINVAL,
            "global batch 30 is not a multiple of micro-batch 4 x dp 2 = 8");
    REFUSED(dp_micro_batches(4, 4, 2, &count), TRINE_EINVAL, "global batch 4 is not a multiple");
    REFUSED(dp_micro_batches(0, 4, 2, &count), TRINE_EINVAL, "global batch 0");
    REFUSED(dp_micro_batches(-8, 4, 2, &count), TRINE_EINVAL, "global batch -8");
    REFUSED(dp_micro_batches(8, 0, 2, &count), TRINE_EINVAL, "micro-batch 0 x dp 2");
    REFUSED(dp_micro_batches(8, -4, 2, &count), TRINE_EINVAL, "micro-batch -4 x dp 2");
    /* The product is not taken in 32 bits, where it would be 0. */
    REFUSED(dp_micro_batches(8, 65536, 65536, &count), TRINE_EINVAL, "= 4294967296");
}

/* Sample b of micro-batch m of rank d, by the number of its micro-batch; lane: 0 without lanes. */
static uint64_t sample_of(int size, int micros, int dp, int lane, int d, int m, int b) {
    program_spec spec = {.micros = micros, .lane = lane, .parallel.exact = lane > 0};
    return spec_sample(&spec, dp, d, m, (size_t)size) + (uint64_t)b;
}

/* Every sample of the global batch is read once: by one rank, at one place of one micro-batch. */
static void test_samples_are_a_bijection(void **state) {
    (void)state;
    for (int micro = 1; micro <= 5; micro++)
        for (int dp = 1; dp <= 6; dp++)
            for (int count = 1; count <= 7; count++)
                for (int lane = 0; lane <= count; lane++) {
                    char seen[5 * 6 * 7] = {0};
                    uint64_t global = (uint64_t)(micro * dp * count);
                    if (lane && count % lane) continue;
                    for (int d = 0; d < dp; d++)
                        for (int m = 0; m < count; m++)
                            for (int b = 0; b < micro; b++) {
                                uint64_t sample = sample_of(micro, count, dp, lane, d, m, b);
                                assert_true(sample < global);
                                assert_int_equal(seen[sample]++, 0);
                            }
                }
}

/* The first micro-batches of all ranks are the first samples, whatever dp is. */
static void test_micro_batches_are_in_order(void **state) {
    (void)state;
    assert_int_equal(sample_of(4, 4, 2, 0, 0, 0, 0), 0);
    assert_int_equal(sample_of(4, 4, 2, 0, 0, 0, 3), 3);
    assert_int_equal(sample_of(4, 4, 2, 0, 1, 0, 0), 4);
    assert_int_equal(sample_of(4, 4, 2, 0, 0, 1, 0), 8);
    assert_int_equal(sample_of(4, 4, 2, 0, 1, 3, 2), 30);
    for (int m = 0; m < 4; m++)
        for (int b = 0; b < 4; b++)
            assert_int_equal(sample_of(4, 2, 2, 0, m % 2, m / 2, b),
                             sample_of(4, 4, 1, 0, 0, m, b));
    /* Large batches of many ranks. */
    assert_true(sample_of(1024, 4096, 4096, 0, 4095, 4095, 1023) ==
                (uint64_t)1024 * 4096 * 4096 - 1);
}

/* Lane l of D has the micro-batches l, l + D, l + 2 D ... in this order, on whichever rank. */
static void test_lanes_have_the_same_micro_batches(void **state) {
    (void)state;
    enum { K = 12 };
    for (int D = 1; D <= K; D++)
        for (int dp = 1; dp <= D; dp++) {
            if (K % D || D % dp) continue;
            for (int l = 0; l < D; l++)
                for (int j = 0; j < K / D; j++)
                    assert_int_equal(
                        sample_of(1, K / dp, dp, K / D, l % dp, l / dp * (K / D) + j, 0),
                        j * D + l);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_micro_batches),
        cmocka_unit_test(test_samples_are_a_bijection),
        cmocka_unit_test(test_micro_batches_are_in_order),
        cmocka_unit_test(test_lanes_have_the_same_micro_batches),
    };
    return HARNESS_RUN_ALONE(tests);
}
