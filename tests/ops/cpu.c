/* TEST np=0 */
/* The cpu table against ref, row by row of cases.h: values, NaNs, and independence of threads. */
#include "ops/cases.h"

#include <math.h>

/* Input with seed 1, output pre-filled with seed 2, and the operator run over them. `poison` is put
 * at input element poison_at (skipped when that is SIZE_MAX). */
static float *output_of(device *d, const op_case *c, const dims *s, size_t poison_at,
                        float poison) {
    size_t in_count, out_count, terms;
    c->sizes(s, &in_count, &out_count, &terms);
    float *in = fixture_random(in_count, 1, c->spread), *out = fixture_random(out_count, 2, 1.0);
    if (poison_at != SIZE_MAX) in[poison_at] = poison;
    c->run(d, s, in, out);
    free(in);
    return out;
}

static void label(char *text, size_t size, const op_case *c, const dims *s) {
    snprintf(text, size, "%s (%zu, %zu, %zu, %zu)", c->name, s->n[0], s->n[1], s->n[2], s->n[3]);
}

/* A sum of K products of numbers of size 1 is of size sqrt(K) / 3. Its K roundings, each up to half
 * an EPS of the sum so far, walk at random: sqrt(K) times that. Beside sums, up to 16 roundings
 * (an exponential, a division, stored statistics) of values of the size of the result or of 1. */
static void near_in(const op_case *c, const dims *s, const float *got, const float *want) {
    size_t in_count, out_count, terms;
    char text[128];
    c->sizes(s, &in_count, &out_count, &terms);
    label(text, sizeof text, c, s);
    double root = sqrt((double)terms);
    fixture_near(text, got, want, out_count, EPS * (8.0 + root), 1.0 + root / 3.0);
}

static void cpu_equals_ref(void **state) {
    (void)state;
    device *cpu, *ref;
    OK(device_open(&cpu, DEVICE_CPU, 2));
    OK(device_open(&ref, DEVICE_REF, 1));
    for (size_t i = 0; i < OP_CASES; i++)
        for (size_t j = 0; j < op_cases[i].count; j++) {
            const dims *s = &op_cases[i].shapes[j];
            float *got = output_of(cpu, &op_cases[i], s, SIZE_MAX, 0.0f);
            float *want = output_of(ref, &op_cases[i], s, SIZE_MAX, 0.0f);
            near_in(&op_cases[i], s, got, want);
            free(got), free(want);
        }
    device_close(&cpu);
    device_close(&ref);
}

static size_t count_nan(const float *x, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (isnan(x[i])) count++;
    return count;
}

/* One NaN at several places of the input: the same outputs are NaN as in ref, and no others.
 * Returns how many there were. */
static size_t check_nan(device *cpu, device *ref, const op_case *c, const dims *s) {
    size_t in_count, out_count, terms, seen = 0;
    c->sizes(s, &in_count, &out_count, &terms);
    if (in_count == 0 || in_count > 200000) return 0;
    for (size_t k = 0; k < 7; k++) {
        size_t at = k * (in_count - 1) / 6;
        float *got = output_of(cpu, c, s, at, NAN), *want = output_of(ref, c, s, at, NAN);
        near_in(c, s, got, want);
        seen += count_nan(want, out_count);
        free(got), free(want);
    }
    return seen;
}

static void nan_comes_out_where_ref_says(void **state) {
    (void)state;
    device *cpu, *ref;
    OK(device_open(&cpu, DEVICE_CPU, 2));
    OK(device_open(&ref, DEVICE_REF, 1));
    for (size_t i = 0; i < OP_CASES; i++) {
        size_t seen = 0;
        for (size_t j = 0; j < op_cases[i].count; j++)
            seen += check_nan(cpu, ref, &op_cases[i], &op_cases[i].shapes[j]);
        if (seen == 0) fail_msg("%s: no NaN came out", op_cases[i].name);
    }
    device_close(&cpu);
    device_close(&ref);
}

/* Infinities: an element that ref leaves finite is finite and near, any other is not finite. */
static void check_infinity(device *cpu, device *ref, const op_case *c, const dims *s, float what) {
    size_t in_count, out_count, terms;
    c->sizes(s, &in_count, &out_count, &terms);
    if (in_count == 0 || in_count > 200000) return;
    for (size_t k = 0; k < 3; k++) {
        size_t at = k * (in_count - 1) / 2;
        float *got = output_of(cpu, c, s, at, what), *want = output_of(ref, c, s, at, what);
        for (size_t i = 0; i < out_count; i++)
            if (!isfinite(want[i]) && !isfinite(got[i])) got[i] = want[i] = 0.0f;
        near_in(c, s, got, want);
        free(got), free(want);
    }
}

static void infinity_is_not_lost(void **state) {
    (void)state;
    device *cpu, *ref;
    OK(device_open(&cpu, DEVICE_CPU, 2));
    OK(device_open(&ref, DEVICE_REF, 1));
    for (size_t i = 0; i < OP_CASES; i++)
        for (size_t j = 0; j < op_cases[i].count; j++) {
            check_infinity(cpu, ref, &op_cases[i], &op_cases[i].shapes[j], INFINITY);
            check_infinity(cpu, ref, &op_cases[i], &op_cases[i].shapes[j], -INFINITY);
        }
    device_close(&cpu);
    device_close(&ref);
}

static void same_bits(const op_case *c, const dims *s, const float *a, const float *b,
                      int threads) {
    size_t in_count, out_count, terms;
    char text[128];
    c->sizes(s, &in_count, &out_count, &terms);
    label(text, sizeof text, c, s);
    if (memcmp(a, b, out_count * sizeof *a) != 0)
        fail_msg("%s: other bits with %d threads than with one", text, threads);
}

static void threads_change_no_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < OP_CASES; i++) {
        if (op_cases[i].matmul) continue;
        for (size_t j = 0; j < op_cases[i].count; j++) {
            float *out[4] = {NULL};
            for (int threads = 1; threads <= 3; threads++) {
                device *d;
                OK(device_open(&d, DEVICE_CPU, threads));
                out[threads] = output_of(d, &op_cases[i], &op_cases[i].shapes[j], SIZE_MAX, 0.0f);
                device_close(&d);
                same_bits(&op_cases[i], &op_cases[i].shapes[j], out[1], out[threads], threads);
            }
            for (int threads = 1; threads <= 3; threads++) free(out[threads]);
        }
    }
}

/* The same numbers at another address, 4 bytes off every vector's alignment: no bit changes. */
static void alignment_changes_no_bit(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 1));
    for (size_t i = 0; i < OP_CASES; i++)
        for (size_t j = 0; j < op_cases[i].count; j++) {
            const op_case *c = &op_cases[i];
            const dims *s = &c->shapes[j];
            size_t in_count, out_count, terms;
            c->sizes(s, &in_count, &out_count, &terms);
            if (c->matmul) continue;
            float *want = output_of(d, c, s, SIZE_MAX, 0.0f);
            float *in = fixture_random(in_count, 1, c->spread);
            float *fill = fixture_random(out_count, 2, 1.0);
            float *in_off = fixture_bytes((in_count + 1) * sizeof *in_off);
            float *out_off = fixture_bytes((out_count + 3) * sizeof *out_off);
            memcpy(in_off + 1, in, in_count * sizeof *in);
            memcpy(out_off + 3, fill, out_count * sizeof *fill);
            c->run(d, s, in_off + 1, out_off + 3);
            if (memcmp(out_off + 3, want, out_count * sizeof *want) != 0)
                fail_msg("%s: other bits at another address", c->name);
            free(want), free(in), free(fill), free(in_off), free(out_off);
        }
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
