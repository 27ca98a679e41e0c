/* TEST np=0 */
/* The cuda table against ref, row by row of cases.h, with the same kernels on the processor: memory
 * that the host cannot touch, a queue that runs late, threads in random order (tests/emu). */
#include "ops/cuda_tests.h"

/* Only the number of processors differs between the two. */
static float *output_with(const char *processors, const op_case *c, const dims *s) {
    assert_int_equal(setenv("TRINE_EMU_PROCESSORS", processors, 1), 0);
    device *d = opened();
    float *out = output_of(d, c, s, SIZE_MAX, 0.0f);
    staged_close(&d);
    return out;
}

static void the_size_of_the_gpu_changes_no_bit(void **state) {
    (void)state;
    EACH_SHAPE(c, s) {
        if (c->matmul) continue;
        same_bits(c, s, output_with("1", c, s), output_with("132", c, s), "on a larger GPU");
    }
    assert_int_equal(unsetenv("TRINE_EMU_PROCESSORS"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TESTS,
                                       cmocka_unit_test(the_size_of_the_gpu_changes_no_bit)};
    static char why[256];
    kind = STAGED_EMULATED;
    if (!staged_backend(kind, why, sizeof why)) return harness_skip(why);
    return HARNESS_RUN_ALONE(tests);
}
