/* TEST np=0 */
/* The cpu table against ref, row by row of cases.h: values, NaNs, and independence of threads. */
#include "ops/compare.h"

static void cpu_equals_ref(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 2));
    all_equal_ref(d);
    device_close(&d);
}

static void nan_comes_out_where_ref_says(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 2));
    all_nans_come_out(d);
    device_close(&d);
}

static void infinity_is_not_lost(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 2));
    all_infinities_come_out(d);
    device_close(&d);
}

/* Products keep their bits with exact_threads, everything else always. */
static float *output_with(int threads, const op_case *c, const dims *s) {
    const device_config config = {
        .kind = DEVICE_CPU, .threads = threads, .exact_threads = c->matmul};
    device *d;
    OK(device_open_with(&d, &config));
    float *out = output_of(d, c, s, SIZE_MAX, 0.0f);
    device_close(&d);
    return out;
}

static void threads_change_no_bit(void **state) {
    (void)state;
    bool exact = fixture_exact_threads(TRINE_F32);
    if (!exact) print_message("# not tested: products: %s\n", status_message());
    EACH_SHAPE(c, s) {
        if (c->matmul && !exact) continue;
        same_bits(c, s, output_with(1, c, s), output_with(2, c, s), "with 2 threads");
        same_bits(c, s, output_with(1, c, s), output_with(3, c, s), "with 3 threads");
    }
}

static void alignment_changes_no_bit(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 1));
    no_address_changes_a_bit(d);
    device_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_equals_ref),           cmocka_unit_test(nan_comes_out_where_ref_says),
        cmocka_unit_test(infinity_is_not_lost),     cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(alignment_changes_no_bit),
    };
    return HARNESS_RUN_ALONE(tests);
}
