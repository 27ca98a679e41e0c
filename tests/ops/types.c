/* TEST np=0 plain device */
/* Every operator in 16 bits, on every device, compared with ref in the same types: all rows of cases.h,
 * like ops/cpu.c and ops/cuda.c in fp32, through devices that take floats and round them (staged.h).
 * fp32 outputs have the bounds of fp32. */
#include "ops/compare.h"

typedef struct {
    trine_dtype compute, grads;
} types;

static const types pairs[] = {{TRINE_BF16, TRINE_F32},
                              {TRINE_BF16, TRINE_BF16},
                              {TRINE_F16, TRINE_F32},
                              {TRINE_F16, TRINE_F16}};

#define PAIRS    (sizeof pairs / sizeof *pairs)
#define DEVICES  (1 + STAGED_KINDS)
#define EMULATED (1 + STAGED_EMULATED)

static device *open_cpu(types t, int threads) {
    const device_config config = {
        .kind = DEVICE_CPU, .threads = threads, .compute = t.compute, .grads = t.grads};
    char why[256];
    device *d = staged_open_host(&config, why, sizeof why);
    if (!d) print_message("# not tested: %s\n", why);
    return d;
}

static device *open_one(int which, types t) {
    char why[256];
    if (which == 0) return open_cpu(t, 2);
    return staged_open_floats((staged_kind)(which - 1), t.compute, t.grads, why, sizeof why);
}

/* On each available device, with each pair of types. */
static void on_all(void (*check)(device *d)) {
    for (int which = 0; which < DEVICES; which++)
        for (size_t p = 0; p < PAIRS; p++) {
            device *d = open_one(which, pairs[p]);
            if (!d) continue;
            check(d);
            each_close(&d);
        }
}

/* With two pairs of types that use each load and most stores, and not on the emulation, which is slow:
 * ops/cuda.c tests the same in fp32, and only loads and stores differ. */
static void on_some(void (*check)(device *d)) {
    for (int which = 0; which < DEVICES; which++)
        for (size_t p = 1; p <= 2 && which != EMULATED; p++) {
            device *d = open_one(which, pairs[p]);
            if (!d) continue;
            check(d);
            each_close(&d);
        }
}

/* Whether an operator reads or writes gradients of parameters, which have a type of their own. */
static bool has_grads(const op_case *c) {
    static const char *const names[] = {
        "linear_dw",  "bias_backward",    "norm_dx",           "rms_norm_dx",
        "qk_norm_dx", "embedding_dtable", "position_dtable",   "position_rows_dtable",
        "add",        "sum_squares",      "sum_squares_exact", "adamw"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(c->name, names[i]) == 0) return true;
    return false;
}

/* Every device against one run of ref. */
static void all_equal(device *ref, device **devices, const op_case *c, const dims *s) {
    size_t in_count, out_count, terms;
    c->sizes(s, &in_count, &out_count, &terms);
    float *want = output_of(ref, c, s, SIZE_MAX, 0.0f);
    for (int which = 0; which < DEVICES; which++) {
        if (!devices[which]) continue;
        float *got = output_of(devices[which], c, s, SIZE_MAX, 0.0f);
        near_in(devices[which], c, s, got, want);
        free(got);
    }
    free(want);
}

/* The second pair with the same type of elements has other gradients, and other entries of the table: operators
 * without gradients run their small shapes again. */
static bool differs(size_t pair, const op_case *c, const dims *s) {
    size_t in_count, out_count, terms;
    c->sizes(s, &in_count, &out_count, &terms);
    return pair % 3 == 0 || has_grads(c) || in_count <= 4096;
}

static void all_types_equal_ref(void **state) {
    (void)state;
    for (size_t p = 0; p < PAIRS; p++) {
        const device_config config = {
            .kind = DEVICE_REF, .threads = 1, .compute = pairs[p].compute, .grads = pairs[p].grads};
        device *devices[DEVICES], *ref = NULL;
        char why[256];
        for (int which = 0; which < DEVICES; which++) devices[which] = open_one(which, pairs[p]);
        ref = staged_open_host(&config, why, sizeof why);
        assert_non_null(ref);
        EACH_SHAPE(c, s) if (differs(p, c, s)) all_equal(ref, devices, c, s);
        for (int which = 0; which < DEVICES; which++)
            if (devices[which]) each_close(&devices[which]);
        each_close(&ref);
    }
}

static void nan_comes_out_where_ref_says(void **state) {
    (void)state;
    on_some(all_nans_come_out);
}

static void infinity_is_not_lost(void **state) {
    (void)state;
    on_some(all_infinities_come_out);
}

static void alignment_changes_no_bit(void **state) {
    (void)state;
    on_some(no_address_changes_a_bit);
}

/* Elementwise operators in float, and exact sums, in an order that ops.h specifies: all devices compute the same
 * floats and store the same 16 bits. */
static void check_bits_of_ref(device *d) {
    static const char *const names[] = {"bias_residual",
                                        "dropout_residual",
                                        "dropout",
                                        "embedding_x",
                                        "embedding_dtable",
                                        "position_x",
                                        "position_dtable",
                                        "position_rows_x",
                                        "position_rows_dtable",
                                        "add",
                                        "sum_parts",
                                        "columns_add",
                                        "columns_take",
                                        "sum_squares_exact"};
    device *ref = ref_of(d);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t seen = 0;
        EACH_SHAPE(c, s) {
            if (strcmp(c->name, names[n]) != 0) continue;
            same_bits(c, s, output_of(d, c, s, SIZE_MAX, 0.0f),
                      output_of(ref, c, s, SIZE_MAX, 0.0f), "from ref");
            seen++;
        }
        assert_true(seen > 0);
    }
    each_close(&ref);
}

static void what_is_added_one_by_one_has_the_bits_of_ref(void **state) {
    (void)state;
    on_all(check_bits_of_ref);
    device *cpu;
    OK(device_open(&cpu, DEVICE_CPU, 2));
    check_bits_of_ref(cpu); /* and in fp32 */
    device_close(&cpu);
}

/* The weights of the next forward pass are the master rounded once, bit for bit. */
static void check_copy(device *d) {
    enum { COUNT = 5003 };
    float *w = fixture_random(COUNT, 1, 1.0), *m = fixture_random(COUNT, 2, 1.0);
    float *v = fixture_random(COUNT, 3, 1.0), *g = fixture_random(COUNT, 4, 1.0);
    float *copy = fixture_random(COUNT, 5, 1.0);
    const adamw_args args = {
        .lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-6f, .scale = 1.0f, .step = 2};
    for (size_t i = 0; i < COUNT; i++) v[i] = fabsf(v[i]);
    OK(ops_adamw(d, w, m, v, copy, g, COUNT, &args));
    for (size_t i = 0; i < COUNT; i++)
        assert_true(copy[i] == (d->compute == TRINE_BF16 ? bf16_load(bf16_store(w[i]))
                                                         : f16_load(f16_store(w[i]))));
    free(w), free(m), free(v), free(g), free(copy);
}

static void the_copy_is_the_master_rounded(void **state) {
    (void)state;
    on_all(check_copy);
}

static float *output_with(types t, int threads, const op_case *c, const dims *s) {
    device *d = open_cpu(t, threads);
    float *out = output_of(d, c, s, SIZE_MAX, 0.0f);
    each_close(&d);
    return out;
}

static void threads_change_no_bit(void **state) {
    (void)state;
    for (size_t p = 1; p <= 2; p++) {
        device *d = open_cpu(pairs[p], 1);
        if (!d) continue;
        each_close(&d);
        EACH_SHAPE(c, s) {
            if (c->matmul) continue;
            same_bits(c, s, output_with(pairs[p], 1, c, s), output_with(pairs[p], 3, c, s),
                      "with 3 threads");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types_equal_ref),
        cmocka_unit_test(nan_comes_out_where_ref_says),
        cmocka_unit_test(infinity_is_not_lost),
        cmocka_unit_test(alignment_changes_no_bit),
        cmocka_unit_test(what_is_added_one_by_one_has_the_bits_of_ref),
        cmocka_unit_test(the_copy_is_the_master_rounded),
        cmocka_unit_test(threads_change_no_bit),
    };
    return HARNESS_RUN_ALONE(tests);
}
