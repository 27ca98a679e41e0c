/* TEST np=0 */
/* The line of a progress bar, for every width of a terminal. (On a terminal: tests/train/terminal.t.) */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "base/progress.h"

static const char *const parts[] = {"2 min 5 s left", "loss 2.4810", "5031 tokens/s"};

/* Columns of a text: characters that are no continuation of one in UTF-8. */
static int columns_of(const char *text) {
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void no_line_wraps(void **state) {
    (void)state;
    char text[1700];
    for (int columns = 0; columns <= 300; columns++)
        for (int utf8 = 0; utf8 < 2; utf8++)
            for (int count = 0; count <= 3; count++)
                for (double share = -0.1; share < 1.2; share += 0.037) {
                    int taken = progress_line(text, sizeof text, columns, utf8, "step 12/90", share,
                                              parts, count);
                    assert_int_equal(columns_of(text), taken);
                    assert_true(taken <= (columns > 1 ? columns - 1 : 0));
                    if (columns >= 100) assert_true(taken >= columns_of("step 12/90 [] 100%") + 40);
                    if (columns >= 120)
                        for (int i = 0; i < count; i++) assert_non_null(strstr(text, parts[i]));
                }
}

static void expect(const char *want, int columns, bool utf8, double share, int count) {
    char text[1700];
    progress_line(text, sizeof text, columns, utf8, "step 12/90", share, parts, count);
    assert_string_equal(text, want);
}

/* What is left is more important than the loss, and both than the bar's length. */
static void the_end_is_left_out_first(void **state) {
    (void)state;
    expect("step 12/90 [####......]  40%  2 min 5 s left | loss 2.4810 | 5031 tokens/s", 75, false,
           0.4, 3);
    expect("step 12/90 [##########...............]  40%  2 min 5 s left | loss 2.4810", 74, false,
           0.4, 3);
    expect("step 12/90 [####......]  40%  2 min 5 s left", 45, false, 0.4, 3);
    expect("step 12/90 [##########................]  40%", 45, false, 0.4, 0);
    expect("step 12/90 [##...]  40%", 24, false, 0.4, 3);
    expect("step 12/90 ", 12, false, 0.4, 3);
    expect("step", 5, false, 0.4, 3);
    expect("step 12/90  2 min 5 s left", 30, false, NAN, 2);
}

static void eighths_of_a_block(void **state) {
    (void)state;
    expect("step 12/90 [\u2588\u2588\u258d       ]  24%", 29, true, 0.2425, 0);
    expect("step 12/90 [          ]   0%", 29, true, 0, 0);
    expect("step 12/90 [\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588] 100%", 29,
           true, 1, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_wraps),
        cmocka_unit_test(the_end_is_left_out_first),
        cmocka_unit_test(eighths_of_a_block),
    };
    return HARNESS_RUN_ALONE(tests);
}
