/* TEST np=0 */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "base/human.h"

static void bytes(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {10234, "9.99 KiB"},
        {10235, "10.0 KiB"}, /* 9.99512 */
        {102348, "99.9 KiB"},
        {102349, "100 KiB"}, /* 99.9502 */
        {1023 * 1024, "1023 KiB"},
        {1024 * 1024 - 513, "1023 KiB"},
        {1024 * 1024 - 512, "1.00 MiB"}, /* 1023.5 KiB */
        {2083059138, "1.94 GiB"},
        {UINT64_C(80) << 30, "80.0 GiB"},
        {UINT64_C(1) << 40, "1.00 TiB"},
        {UINT64_C(1) << 50, "1.00 PiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    char text[HUMAN_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(human_bytes(text, rows[i].bytes), rows[i].text);
}

static void counts(void **state) {
    (void)state;
    static const struct {
        uint64_t count;
        const char *text;
    } rows[] = {
        {0, "0"},
        {999, "999"},
        {1000, "1.000 K"},
        {50257, "50.26 K"},
        {999949, "999.9 K"},
        {999950, "1.000 M"},
        {124439808, "124.4 M"},
        {1557611200, "1.558 B"},
        {UINT64_C(3200000000000), "3.200 T"},
        {UINT64_C(32000000000000000), "32000 T"},
        {UINT64_MAX, "18446744 T"},
    };
    char text[HUMAN_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(human_count(text, rows[i].count), rows[i].text);
}

static void durations(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } rows[] = {
        {0, "0 us"},
        {850e-6, "850 us"},
        {999.6e-6, "1 ms"},
        {12.4e-3, "12 ms"},
        {0.9994, "999 ms"},
        {0.9996, "1.0 s"},
        {4.23, "4.2 s"},
        {59.94, "59.9 s"},
        {59.96, "1 min 0 s"},
        {200, "3 min 20 s"},
        {3599.4, "59 min 59 s"},
        {3599.6, "1 h 0 min"},
        {7500, "2 h 5 min"},
        {86400 - 31, "23 h 59 min"},
        {86400 - 29, "1 d 0 h"},
        {4 * 86400 + 7 * 3600, "4 d 7 h"},
        {1e11, "1157407 d 10 h"},
        {8.64e304, "1e+300 d"},
        {-1, "-"},
        {INFINITY, "-"},
        {NAN, "-"},
    };
    char text[HUMAN_SIZE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(human_duration(text, rows[i].seconds), rows[i].text);
}

/* For any value: the text fits the buffer, and a byte count is below the next unit. */
static void no_value_overflows(void **state) {
    (void)state;
    char text[HUMAN_SIZE];
    for (int bit = 0; bit < 64; bit++)
        for (int away = -1; away <= 1; away++) {
            uint64_t value = (UINT64_C(1) << bit) + (uint64_t)away;
            assert_true(strlen(human_bytes(text, value)) < 10);
            assert_null(strstr(text, "1024"));
            assert_true(strlen(human_count(text, value)) < 11);
            assert_true(strlen(human_duration(text, (double)value * 1e-7)) < 20);
        }
}

static const struct CMUnitTest human_tests[] = {
    cmocka_unit_test(bytes),
    cmocka_unit_test(counts),
    cmocka_unit_test(durations),
    cmocka_unit_test(no_value_overflows),
};

int main(void) {
    return HARNESS_RUN_ALONE(human_tests);
}
