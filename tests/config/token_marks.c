/* TEST np=0 */
/* The counts of --save-at-tokens: what a list may be, and which of them a step reaches. */
#include "harness.h"

#include "config/token_marks.h"

static void counts_have_units_and_ascend(void **state) {
    (void)state;
    static const char *const good[] = {"1", "5000000", "1K,1001,2M,3G", "18446744073709551615"};
    static const char *const bad[][2] = {
        {"", "\"\" is not a count of tokens"},
        {"0", "\"0\" is not a count"},
        {"1,,2", "\"\" is not a count"},
        {"1M,", "\"\" is not a count"},
        {"1 M", "\"1 M\" is not a count"},
        {"1.5M", "\"1.5M\" is not a count"},
        {"-1", "\"-1\" is not a count"},
        {"M", "\"M\" is not a count"},
        {"1MM", "\"1MM\" is not a count"},
        {"1m", "\"1m\" is not a count"},
        {"2K,2000", "\"2000\" is not above"},
        {"3,2", "\"2\" is not above the count before it"},
        {"18446744073709551616", "is not a count"},
        {"18446744073709552K", "is not a count"},
    };
    OK(token_marks_check(NULL));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) OK(token_marks_check(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(token_marks_check(bad[i][0]), TRINE_EINVAL, bad[i][1]);
}

static void a_step_reaches_what_lies_in_it(void **state) {
    (void)state;
    static const char list[] = "1K,1001,2M,3G";
    assert_int_equal(token_marks_between(NULL, 0, UINT64_MAX), 0);
    assert_int_equal(token_marks_between(list, 0, 999), 0);
    assert_int_equal(token_marks_between(list, 0, 1000), 1000);
    assert_int_equal(token_marks_between(list, 1000, 1000), 0);
    assert_int_equal(token_marks_between(list, 999, 1001), 1001); /* the larger of two */
    assert_int_equal(token_marks_between(list, 1000, 1001), 1001);
    assert_int_equal(token_marks_between(list, 1001, 1999999), 0);
    assert_int_equal(token_marks_between(list, 1999999, 2000001), 2000000);
    assert_true(token_marks_between(list, 2000000, 3000000000) == 3000000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_have_units_and_ascend),
        cmocka_unit_test(a_step_reaches_what_lies_in_it),
    };
    return HARNESS_RUN_ALONE(tests);
}
