/* TEST np=0 */
/* Exact sums: against additions bit by bit, in any order and any groups; rounding; what is not finite. */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact_sum.h"
#include "base/rng.h"

enum { COUNT = 6000 };

/* ---- The reference: a number as bits, added with a carry from one to the next --------------------- */

enum { BITS = 700, LOWEST = -360 }; /* bit i has the weight 2^(i + LOWEST) */

static void add_bits(unsigned char *bits, double x) {
    int exponent;
    uint64_t n = (uint64_t)ldexp(frexp(x, &exponent), 53);
    unsigned carry = 0;
    for (int i = 0; i + exponent - 53 - LOWEST < BITS && (i < 64 || carry); i++) {
        unsigned char *to = bits + i + exponent - 53 - LOWEST;
        unsigned sum = *to + carry + (i < 64 ? (unsigned)(n >> i & 1) : 0);
        *to = sum & 1, carry = sum >> 1;
    }
}

/* The nearest double: 53 bits from the first on; what follows decides, and if it is a half the last of them. */
static double rounded(const unsigned char *bits) {
    int first = BITS - 1;
    while (first >= 0 && !bits[first]) first--;
    if (first < 0) return 0.0;
    double sum = 0.0, unit = ldexp(1.0, first - 52 + LOWEST);
    for (int i = first; i > first - 53; i--) sum += ldexp(bits[i], i + LOWEST);
    bool half = bits[first - 53], more = false;
    for (int i = 0; i < first - 53; i++) more = more || bits[i];
    return half && (more || bits[first - 52]) ? sum + unit : sum;
}

/* Of all sizes, with mantissas that are often all ones or a single one; some are zero. */
static double number(uint64_t i, int low, int high) {
    uint32_t r[4];
    rng_philox(r, 7, i);
    uint64_t n = (uint64_t)r[0] << 21 | r[1] >> 11;
    if (r[2] % 4 == 0) n = UINT64_MAX;
    if (r[2] % 4 == 1) n = 0;
    if (r[2] % 64 == 2) return 0.0;
    n = (n & (EXACT_HIGH - 1)) | EXACT_HIGH;
    return ldexp((double)n, low - 52 + (int)(r[3] % (unsigned)(high - low + 1)));
}

/* ---- Tests -------------------------------------------------------------------------------------- */

static void same(int64_t *a, int64_t *b) {
    exact_carry(a), exact_carry(b);
    assert_memory_equal(a, b, EXACT_WORDS * sizeof *a);
}

static void check_range(int low, int high) {
    static double x[COUNT];
    static unsigned char bits[BITS];
    int64_t forward[EXACT_WORDS] = {0}, backward[EXACT_WORDS] = {0}, thirds[3][EXACT_WORDS] = {0};
    exact_bins bins = {0};
    memset(bits, 0, sizeof bits);
    for (int i = 0; i < COUNT; i++) {
        x[i] = number((uint64_t)i, low, high);
        if (x[i] > 0.0) add_bits(bits, x[i]);
        exact_add(forward, x[i]);
        exact_add(thirds[i % 3], x[i]);
        exact_bins_add(&bins, x[i]);
        if (i % 500 == 0) {
            double got = exact_value(forward), want = rounded(bits);
            assert_memory_equal(&got, &want, sizeof got);
        }
    }
    for (int i = COUNT; i-- > 0;) exact_add(backward, x[i]);
    exact_carry(thirds[1]);
    for (int i = 0; i < EXACT_WORDS; i++) thirds[0][i] += thirds[1][i] + thirds[2][i];
    exact_bins_empty(&bins);
    same(backward, forward), same(thirds[0], forward), same(bins.sum, forward);
    double got = exact_value(forward), want = rounded(bits);
    assert_memory_equal(&got, &want, sizeof got);
}

static void no_order_and_no_grouping_changes_a_bit(void **state) {
    (void)state;
    check_range(-298, 262);
    check_range(-298, -297);
    check_range(262, 262);
    for (int low = -290; low < 260; low += 37) check_range(low, low + 2);
}

/* Ties go to the even neighbour, whatever lies below them decides otherwise, and a carry goes through all bits. */
static void the_sum_is_rounded_once_to_nearest(void **state) {
    (void)state;
    const struct {
        double addends[4], sum;
    } rows[] = {
        {{0x1p53, 1.0}, 0x1p53},
        {{0x1p53, 1.0, 0x1p-298}, 0x1p53 + 2.0},
        {{0x1p53, 2.0, 1.0}, 0x1p53 + 4.0},
        {{0x1p53, 2.0, 0x1.fffffffffffffp-1, 0x1p-53}, 0x1p53 + 4.0},
        {{0x1p53, 2.0, 0x1.fffffffffffffp-1}, 0x1p53 + 2.0},
        {{0x1.fffffffffffffp52, 0.5}, 0x1p53},
        {{0x1.fffffffffffffp200, 0x1p148}, 0x1p201},
        {{0x1p262, 0x1p-298}, 0x1p262},
        {{0x1p-298, 0x1p-298}, 0x1p-297},
        {{0x1p-298, 0.0}, 0x1p-298},
        {{0.0, -0.0}, 0.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t sum[EXACT_WORDS] = {0};
        for (int j = 0; j < 4; j++) exact_add(sum, rows[i].addends[j]);
        assert_true(exact_value(sum) == rows[i].sum);
    }
}

/* 2^48 squares of the largest float; and digits as large as 2^31 addends can make them: the sum of
 * 2^31 (2^32 - 1) 2^(32 i + EXACT_UNIT) is 2^31 (2^640 - 1) 2^EXACT_UNIT. */
static void nothing_is_lost_at_the_limits(void **state) {
    (void)state;
    int64_t sum[EXACT_WORDS] = {0};
    double most = (double)FLT_MAX * (double)FLT_MAX;
    exact_add(sum, most);
    for (int twice = 0; twice < 48; twice++) {
        for (int i = 0; i < EXACT_DIGITS; i++) sum[i] *= 2;
        exact_carry(sum);
    }
    assert_true(exact_value(sum) == ldexp(most, 48));
    for (int i = 0; i < EXACT_DIGITS; i++) sum[i] = (INT64_C(1) << 31) * INT64_C(0xFFFFFFFF);
    assert_true(exact_value(sum) == ldexp(1.0, 31 + 640 + EXACT_UNIT));
    exact_carry(sum);
    for (int i = 0; i + 1 < EXACT_DIGITS; i++) assert_in_range(sum[i], 0, 0xFFFFFFFF);
    assert_true(exact_value(sum) == ldexp(1.0, 31 + 640 + EXACT_UNIT));
}

/* More addends than a bin has room for, the largest of it. */
static void a_full_bin_is_emptied(void **state) {
    (void)state;
    int64_t sum[EXACT_WORDS] = {0};
    exact_bins bins = {0};
    for (int i = 0; i < 2 * EXACT_ROOM + 1; i++) {
        exact_add(sum, 0x1.fffffffffffffp0);
        exact_bins_add(&bins, 0x1.fffffffffffffp0);
    }
    exact_bins_empty(&bins);
    same(bins.sum, sum);
    assert_true(exact_value(sum) == (2 * EXACT_ROOM + 1) * 0x1.fffffffffffffp0);
}

static void what_is_not_finite_is_counted(void **state) {
    (void)state;
    exact_bins bins = {0};
    for (int i = 0; i < 5; i++) exact_bins_add(&bins, i % 2 ? INFINITY : 3.0);
    exact_bins_empty(&bins);
    assert_true(isinf(exact_value(bins.sum)) && bins.sum[EXACT_INFINITIES] == 2);
    const double outside[] = {NAN, -1.0, -INFINITY, 0x1p263, 0x1.fffffffffffffp-299};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        int64_t sum[EXACT_WORDS];
        memcpy(sum, bins.sum, sizeof sum);
        exact_add(sum, outside[i]);
        assert_true(isnan(exact_value(sum)) && sum[EXACT_NANS] == 1);
        assert_memory_equal(sum, bins.sum, EXACT_DIGITS * sizeof *sum);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_and_no_grouping_changes_a_bit),
        cmocka_unit_test(the_sum_is_rounded_once_to_nearest),
        cmocka_unit_test(nothing_is_lost_at_the_limits),
        cmocka_unit_test(a_full_bin_is_emptied),
        cmocka_unit_test(what_is_not_finite_is_counted),
    };
    return HARNESS_RUN_ALONE(tests);
}
