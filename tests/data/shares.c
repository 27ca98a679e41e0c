/* TEST np=0 */
/* The division of samples among sources by weight. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/shares.h"

#define MANY 100000

static const struct {
    int sources;
    const char *weights[9];
    int whole[9]; /* the same as whole numbers */
} cases[] = {
    {1, {"3"}, {1}},
    {2, {"0.7", "0.3"}, {7, 3}},
    {2, {"70", "30.0"}, {7, 3}},
    {2, {"1e-3", "0.999"}, {1, 999}},
    {2, {"12345", "54321"}, {12345, 54321}},
    {3, {"1", "1", "1"}, {1, 1, 1}},
    {3, {"0.98", ".01", "0.01"}, {98, 1, 1}},
    {4, {"5", "3", "2", "1"}, {5, 3, 2, 1}},
    {5, {"0.5", "0.125", "0.125", "0.125", "0.125"}, {4, 1, 1, 1, 1}},
    {6, {"1", "2", "4", "8", "16", "32"}, {1, 2, 4, 8, 16, 32}},
    {7,
     {"0.333333", "0.142857", "0.1", "0.2", "0.000001", "0.123457", "0.100352"},
     {333333, 142857, 100000, 200000, 1, 123457, 100352}},
    {9, {"9", "9", "9", "9", "9", "9", "9", "9", "1"}, {9, 9, 9, 9, 9, 9, 9, 9, 1}},
};

/* |count - weight n| < 1 in whole numbers, after every n; and each source's samples are numbered without gaps. */
static void check(int sources, const char *const *weights, const int *whole, int64_t n) {
    share_order s;
    int64_t count[9] = {0}, sum = 0;
    OK(shares_create(&s, sources, weights));
    for (int i = 0; i < sources; i++) sum += whole[i];
    for (int64_t g = 0; g < n; g++) {
        uint64_t own;
        int source = shares_source(&s, (uint64_t)g, &own);
        assert_in_range(source, 0, sources - 1);
        assert_int_equal(own, count[source]);
        count[source]++;
        for (int i = 0; i < sources; i++)
            assert_true(llabs(count[i] * sum - whole[i] * (g + 1)) < sum);
    }
}

static void every_beginning_has_its_proportions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].sources, cases[i].weights, cases[i].whole, MANY);
}

/* All weights of three and four sources with a small sum, over two periods. */
static void small_weights_without_exception(void **state) {
    (void)state;
    char text[4][12];
    const char *weights[4] = {text[0], text[1], text[2], text[3]};
    for (int a = 1; a <= 9; a++)
        for (int b = 1; b <= a; b++)
            for (int c = 1; c <= b; c++)
                for (int d = 0; d <= c; d++) {
                    int whole[4] = {a, b, c, d};
                    for (int i = 0; i < 4; i++) snprintf(text[i], sizeof text[i], "%d", whole[i]);
                    check(d ? 4 : 3, weights, whole, 2 * (a + b + c + d) + 1);
                }
}

/* In any order of calls a sample has the same source, also far apart, where marks and periods matter. */
static void the_order_of_calls_does_not_matter(void **state) {
    (void)state;
    const char *const weights[] = {"0.6180339", "0.2500001", "0.131966"};
    enum { FAR = 400000 };
    static struct {
        int source;
        uint64_t own;
    } want[FAR];
    share_order s;
    OK(shares_create(&s, 3, weights));
    for (uint64_t g = 0; g < FAR; g++) want[g].source = shares_source(&s, g, &want[g].own);
    uint64_t at = 1, own;
    for (int i = 0; i < 60; i++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        uint64_t g = (at >> 33) % FAR;
        for (uint64_t k = 0; k < 40;
             k++) { /* as micro-batches may be loaded: mixed, then backwards */
            uint64_t near = g + k * (k < 20 ? 7 : 19) % 20;
            if (near >= FAR) continue;
            assert_int_equal(shares_source(&s, near, &own), want[near].source);
            assert_int_equal(own, want[near].own);
        }
    }
}

static void the_period_is_that_of_the_weights(void **state) {
    (void)state;
    share_order s;
    OK(shares_create(&s, 2, (const char *const[]){"0.70", "0.3"}));
    assert_int_equal(s.period, 10);
    OK(shares_create(&s, 2, (const char *const[]){"140", "6e1"}));
    assert_int_equal(s.period, 10);
    uint64_t far = (uint64_t)1 << 60, own, first;
    int source = shares_source(&s, far % 10, &first);
    assert_int_equal(shares_source(&s, far, &own), source);
    assert_int_equal(own, far / 10 * s.weight[source] + first);
}

/* The digits that Python prints are taken as they are. */
static void weights_of_many_digits(void **state) {
    (void)state;
    share_order s;
    uint64_t own, count = 0;
    OK(shares_create(&s, 2, (const char *const[]){"0.30000000000000004", "0.69999999999999996"}));
    for (uint64_t g = 0; g < 10000; g++) count += shares_source(&s, g, &own) == 0;
    assert_in_range(count, 3000, 3001);
}

static void what_is_no_weight(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",   "a",  "0",    "0.0", "-1",  ".",     "1e",
        "1x", " 1", "0x10", "nan", "inf", "1.5.0", "99999999999999999999"};
    share_order s;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[80];
        snprintf(text, sizeof text, "\"%s\" is not a weight", wrong[i]);
        assert_false(shares_is_weight(wrong[i]));
        REFUSED(shares_create(&s, 1, &wrong[i]), TRINE_EINVAL, text);
    }
    REFUSED(shares_create(&s, 2, (const char *const[]){"1e20", "1"}), TRINE_EINVAL,
            "the weights of a blend have more than 18 digits together; round them");
    REFUSED(shares_create(&s, 2, (const char *const[]){"1e-999", "1e999"}), TRINE_EINVAL,
            "round them");
}

static const struct CMUnitTest shares_tests[] = {
    cmocka_unit_test(every_beginning_has_its_proportions),
    cmocka_unit_test(small_weights_without_exception),
    cmocka_unit_test(the_order_of_calls_does_not_matter),
    cmocka_unit_test(the_period_is_that_of_the_weights),
    cmocka_unit_test(weights_of_many_digits),
    cmocka_unit_test(what_is_no_weight),
};

int main(void) {
    return HARNESS_RUN_ALONE(shares_tests);
}
