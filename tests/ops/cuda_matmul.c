/* TEST np=0 */
/* The plans of the cuda device's matmuls: created once per matmul, shape and alignment, with the
 * heuristic of the emulated cuBLASLt, which counts its calls; and the behaviour when it has no
 * algorithm. Other values are compared in cuda.c. */
#include "ops/compare.h"

enum { T = 6, N = 10, K = 8, ROOM = 512 };

typedef enum { FORWARD, FORWARD_PLAIN, INPUT, WEIGHT_SET, WEIGHT_ADD } product;

/* Runs one on tensors that start `off` floats after a multiple of 256 bytes. */
static void run(device *d, product p, size_t n, size_t k, size_t off) {
    float *x, *w, *y, *b;
    void **const all[] = {(void **)&x, (void **)&w, (void **)&y, (void **)&b};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(posix_memalign(all[i], 256, ROOM * sizeof(float)), 0);
        memset(*all[i], 0, ROOM * sizeof(float));
    }
    const grad_mode mode = p == WEIGHT_SET ? GRAD_SET : GRAD_ADD;
    switch (p) {
    case FORWARD:
    case FORWARD_PLAIN:
        OK(d->ops->linear_forward(d, y + off, w + off, p == FORWARD ? b + off : NULL, x + off, T, n,
                                  k));
        break;
    case INPUT: OK(d->ops->linear_backward_input(d, x + off, w + off, y + off, T, n, k)); break;
    case WEIGHT_SET:
    case WEIGHT_ADD:
        OK(d->ops->linear_backward_weight(d, w + off, b + off, y + off, x + off, T, n, k, mode));
        break;
    }
    free(x), free(w), free(y), free(b);
}

static uint64_t plans(void) {
    char why[256];
    uint64_t (*asked)(void);
    *(void **)&asked =
        dlsym(staged_object(STAGED_EMULATED, why, sizeof why), "emu_blas_heuristics");
    assert_non_null(*(void **)&asked);
    return asked();
}

static void plans_are_made_once(void **state) {
    (void)state;
    static const struct {
        product p;
        size_t n, k, off;
        uint64_t more;
    } steps[] = {
        {FORWARD, N, K, 0, 1},       {FORWARD, N, K, 0, 0},       {FORWARD_PLAIN, N, K, 0, 1},
        {FORWARD, N, K, 4, 1},       {FORWARD, N, K + 1, 0, 1},   {FORWARD, N + 1, K, 0, 1},
        {INPUT, N, K, 0, 1},         {WEIGHT_SET, N, K, 0, 1},    {WEIGHT_ADD, N, K, 0, 0},
        {WEIGHT_ADD, N, K, 2, 1},    {WEIGHT_SET, N, K, 2, 0},    {FORWARD, N, K, 4, 0},
        {FORWARD, N, K, 1, 1},       {FORWARD_PLAIN, N, K, 1, 0}, /* bias added by another kernel */
        {FORWARD_PLAIN, N, K, 0, 0}, {INPUT, N, K, 0, 0},         {FORWARD, 0, K, 0, 0},
    };
    char why[256];
    device *d = staged_open(STAGED_EMULATED, why, sizeof why);
    assert_non_null(d);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t before = plans();
        run(d, steps[i].p, steps[i].n, steps[i].k, steps[i].off);
        if (plans() - before != steps[i].more)
            fail_msg("step %zu: %d new plans", i, (int)(plans() - before));
    }
    staged_close(&d);
}

/* More shapes than the table has buckets: its chains keep and distinguish all of them. */
static void many_shapes_are_told_apart(void **state) {
    (void)state;
    char why[256];
    device *d = staged_open(STAGED_EMULATED, why, sizeof why);
    assert_non_null(d);
    uint64_t before = plans();
    for (size_t n = 1; n <= 17; n++)
        for (size_t k = 1; k <= 17; k++) run(d, FORWARD_PLAIN, n, k, 0);
    assert_int_equal(plans() - before, 17 * 17);
    for (size_t n = 1; n <= 17; n++) run(d, FORWARD_PLAIN, n, n, 0);
    assert_int_equal(plans() - before, 17 * 17);
    staged_close(&d);
}

/* ---- No algorithm ---------------------------------------------------------------------------- */

static device *open_typed(trine_dtype compute, trine_dtype grads) {
    char why[256];
    device *d = compute == TRINE_F32
                    ? staged_open(STAGED_EMULATED, why, sizeof why)
                    : staged_open_floats(STAGED_EMULATED, compute, grads, why, sizeof why);
    assert_non_null(d);
    return d;
}

/* Every product except the large ones, against ref. Where there is no algorithm with a bias, 16 bits of bias +
 * residual, numbers up to 2, are rounded on the way; nothing else is. */
static void check_products(trine_dtype compute, trine_dtype grads) {
    device *d = open_typed(compute, grads), *ref = ref_of(d);
    EACH_SHAPE(c, s) {
        if (!c->matmul) continue;
        size_t in, out, terms;
        c->sizes(s, &in, &out, &terms);
        if (in > 100000 || out > 10000) continue;
        const double root = sqrt((double)terms), size = 1.0 + root / 3.0;
        const double bound = EPS * (8.0 + root);
        type_bound b = bound_on(d, c, s, (double)terms, bound * size);
        if (compute != TRINE_F32 && strcmp(c->name, "linear_residual") == 0) b.way = 1.0;
        float *got = output_of(d, c, s, SIZE_MAX, 0.0f);
        float *want = output_of(ref, c, s, SIZE_MAX, 0.0f);
        near_typed(c->name, compute, got, want, out, bound, size, b);
        free(got), free(want);
    }
    each_close(&ref), staged_close(&d);
}

static void picky(const char *how) {
    assert_int_equal(setenv("TRINE_EMU_BLAS", how, 1), 0);
}

static int unpick(void **state) {
    (void)state;
    return unsetenv("TRINE_EMU_BLAS");
}

static void without_an_epilogue_the_bias_lies_there_first(void **state) {
    (void)state;
    picky("1");
    check_products(TRINE_F32, TRINE_F32);
    check_products(TRINE_BF16, TRINE_F32);
    check_products(TRINE_F16, TRINE_F16);
}

static void then_any_scheme_will_do(void **state) {
    (void)state;
    picky("2");
    check_products(TRINE_BF16, TRINE_BF16);
    check_products(TRINE_F16, TRINE_F32);
}

/* One more query for each matmul with a bias, and none later. */
static void the_library_is_asked_once_again(void **state) {
    (void)state;
    device *d = open_typed(TRINE_F32, TRINE_F32);
    picky("1");
    const uint64_t before = plans();
    for (int i = 0; i < 3; i++) run(d, FORWARD, N + 1, K, 0);
    assert_int_equal(plans() - before, 1);
    staged_close(&d);
}

static void what_has_no_algorithm_at_all_is_refused(void **state) {
    (void)state;
    float x[4] = {1, 2, 3, 4}, y[4];
    device *d = open_typed(TRINE_F32, TRINE_F32);
    picky("3");
    REFUSED(d->ops->linear_forward(d, y, x, x, x, 2, 1, 2), TRINE_EMATH,
            "no algorithm for matmul y = x w^T with T 2, N 1, K 2");
    staged_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_made_once),
        cmocka_unit_test(many_shapes_are_told_apart),
        cmocka_unit_test_teardown(without_an_epilogue_the_bias_lies_there_first, unpick),
        cmocka_unit_test_teardown(then_any_scheme_will_do, unpick),
        cmocka_unit_test_teardown(the_library_is_asked_once_again, unpick),
        cmocka_unit_test_teardown(what_has_no_algorithm_at_all_is_refused, unpick),
    };
    static char why[256];
    if (!staged_backend(STAGED_EMULATED, why, sizeof why)) return harness_skip(why);
    return HARNESS_RUN_ALONE(tests);
}
