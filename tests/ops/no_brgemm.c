/* TEST np=0 */
/* A processor without the instructions of oneDNN's brgemm, which the library's own variable makes of any: with
 * exact_threads each product is refused with its sizes and types, when it is prepared and when it is run. */
#include "ops/fixture.h"

#include "device/cpu/cpu.h"

enum { T = 6, N = 10, K = 8 };

static device *open_type(trine_dtype compute, bool exact) {
    const device_config config = {
        .kind = DEVICE_CPU, .threads = 2, .compute = compute, .exact_threads = exact};
    device *d;
    OK(device_open_with(&d, &config));
    return d;
}

#define SIZES "T 6, N 10, K 8, fp32 to fp32"

static void products_are_refused(void **state) {
    (void)state;
    float *x = fixture_random(T * K, 1, 1.0), *w = fixture_random(N * K, 2, 1.0);
    float *dy = fixture_random(T * N, 3, 1.0), *out = fixture_random(N * K, 4, 1.0);
    static const trine_dtype compute[] = {TRINE_F32, TRINE_F16}; /* fp16 is multiplied in fp32 */
    for (int i = 0; i < 2; i++) {
        device *d = open_type(compute[i], true);
        const ops *o = d->ops;
        REFUSED(device_prepare_linear(d, true, T, N, K), TRINE_EUNSUPPORTED, "y = x w^T, " SIZES);
        REFUSED(device_prepare_linear(d, true, 1, N, K), TRINE_EUNSUPPORTED,
                "dx = dy w, T 1, N 10");
        REFUSED(o->linear_forward(d, out, w, NULL, x, T, N, K), TRINE_EUNSUPPORTED, SIZES);
        REFUSED(o->linear_backward_input(d, out, w, dy, T, N, K), TRINE_EUNSUPPORTED,
                "dx = dy w, " SIZES);
        for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
            REFUSED(o->linear_backward_weight(d, out, NULL, dy, x, T, N, K, mode),
                    TRINE_EUNSUPPORTED, "dw = dy^T x, " SIZES);
        assert_int_equal(cpu_matmul_count(d), 0);
        device_close(&d);
    }
    free(x), free(w), free(dy), free(out);
}

/* One row is multiplied without the library, and without exact_threads it multiplies everything. */
static void nothing_else_is_refused(void **state) {
    (void)state;
    float *x = fixture_random(T * K, 1, 1.0), *w = fixture_random(N * K, 2, 1.0), y[T * N];
    device *exact = open_type(TRINE_F32, true), *plain = open_type(TRINE_F32, false);
    OK(exact->ops->linear_forward(exact, y, w, NULL, x, 1, N, K));
    OK(device_prepare_linear(plain, true, T, N, K));
    OK(plain->ops->linear_forward(plain, y, w, NULL, x, T, N, K));
    device_close(&exact);
    device_close(&plain);
    free(x), free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_refused),
        cmocka_unit_test(nothing_else_is_refused),
    };
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1); /* the library reads it at its first use */
    return HARNESS_RUN_ALONE(tests);
}
