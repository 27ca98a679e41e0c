/* TEST np=0 */
/* The cuda table against ref, row by row of cases.h, with the same kernels on the processor: device
 * memory, an asynchronous queue, threads in random order (emu). */
#include "ops/cuda_tests.h"

static device *opened_with(const char *processors, trine_dtype compute, trine_dtype grads) {
    char why[256];
    assert_int_equal(setenv("TRINE_EMU_PROCESSORS", processors, 1), 0);
    device *d = compute == TRINE_F32 ? staged_open(kind, why, sizeof why)
                                     : staged_open_floats(kind, compute, grads, why, sizeof why);
    assert_non_null(d);
    assert_int_equal(unsetenv("TRINE_EMU_PROCESSORS"), 0);
    return d;
}

/* The second run has another order of thread blocks and threads. Attention adds in the same order in both 16-bit
 * types. */
static void compare_sizes(trine_dtype compute, trine_dtype grads) {
    device *one = opened_with("1", compute, grads), *many = opened_with("132", compute, grads);
    EACH_SHAPE(c, s)
    if (!c->matmul && (compute != TRINE_F16 || strncmp(c->name, "attention_", 10) != 0))
        same_bits(c, s, output_of(one, c, s, SIZE_MAX, 0.0f), output_of(many, c, s, SIZE_MAX, 0.0f),
                  "on a larger GPU");
    staged_close(&one);
    staged_close(&many);
}

static void the_size_of_the_gpu_changes_no_bit(void **state) {
    (void)state;
    compare_sizes(TRINE_F32, TRINE_F32);
}

static void nor_does_it_in_16_bits(void **state) {
    (void)state;
    compare_sizes(TRINE_BF16, TRINE_BF16);
    compare_sizes(TRINE_F16, TRINE_F32);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TESTS,
                                       cmocka_unit_test(the_size_of_the_gpu_changes_no_bit),
                                       cmocka_unit_test(nor_does_it_in_16_bits)};
    static char why[256];
    kind = STAGED_EMULATED;
    if (!staged_backend(kind, why, sizeof why)) return harness_skip(why);
    return HARNESS_RUN_ALONE(tests);
}
