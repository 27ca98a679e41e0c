/* TEST np=0 */
/* The primitive cache of the cpu device: one primitive per product and shape, created once, also when
 * devices with different thread counts alternate; and how often a 16-bit product is rounded. Values are
 * compared in cpu.c and types.c. */
#include "ops/fixture.h"

#include "base/half.h"
#include "base/levels.h"
#include "device/cpu/cpu.h"

typedef struct {
    size_t T, N, K;
    float *x, *w, *bias, *dy; /* (T, K), (N, K), (N), (T, N) */
    float *y, *dx, *dw;
} layer;

static layer layer_of(size_t T, size_t N, size_t K) {
    return (layer){T,
                   N,
                   K,
                   fixture_random(T * K, 1, 1.0),
                   fixture_random(N * K, 2, 1.0),
                   fixture_random(N, 3, 1.0),
                   fixture_random(T * N, 4, 1.0),
                   fixture_random(T * N, 5, 1.0),
                   fixture_random(T * K, 6, 1.0),
                   fixture_random(N * K, 7, 1.0)};
}

static void layer_free(layer *l) {
    free(l->x), free(l->w), free(l->bias), free(l->dy), free(l->y), free(l->dx), free(l->dw);
}

/* A step of this layer: four products. */
static void step(device *d, layer *l) {
    OK(d->ops->linear_forward(d, l->y, l->w, l->bias, l->x, l->T, l->N, l->K));
    OK(d->ops->linear_forward(d, l->y, l->w, NULL, l->x, l->T, l->N, l->K));
    OK(d->ops->linear_backward_input(d, l->dx, l->w, l->dy, l->T, l->N, l->K));
    OK(d->ops->linear_backward_weight(d, l->dw, NULL, l->dy, l->x, l->T, l->N, l->K, GRAD_ADD));
}

static void a_second_step_makes_no_primitives(void **state) {
    (void)state;
    device *d;
    OK(device_open(&d, DEVICE_CPU, 2));
    assert_int_equal(cpu_matmul_count(d), 0);
    layer a = layer_of(6, 10, 8), b = layer_of(6, 10, 9), again = layer_of(6, 10, 8);
    step(d, &a);
    assert_int_equal(cpu_matmul_count(d), 4);
    step(d, &b);
    assert_int_equal(cpu_matmul_count(d), 8);
    for (int i = 0; i < 3; i++) step(d, &a), step(d, &b), step(d, &again);
    assert_int_equal(cpu_matmul_count(d), 8);
    layer_free(&a), layer_free(&b), layer_free(&again);
    device_close(&d);
}

/* T x N products on both devices, with bias or without. */
static void compare(device *cpu, device *ref, size_t T, size_t N, bool biased) {
    layer l = layer_of(T, N, 3);
    const float *bias = biased ? l.bias : NULL;
    float *want = fixture_bytes(T * N * sizeof *want);
    OK(cpu->ops->linear_forward(cpu, l.y, l.w, bias, l.x, T, N, 3));
    OK(ref->ops->linear_forward(ref, want, l.w, bias, l.x, T, N, 3));
    /* Three products and a bias of at most 1: four roundings of at most 4. */
    fixture_near("linear", l.y, want, T * N, 4 * EPS, 4.0);
    free(want);
    layer_free(&l);
}

/* More shapes than the table has buckets: its chains keep and distinguish all of them. */
static void many_shapes_are_told_apart(void **state) {
    (void)state;
    device *cpu, *ref;
    OK(device_open(&cpu, DEVICE_CPU, 1));
    OK(device_open(&ref, DEVICE_REF, 1));
    for (int round = 0; round < 2; round++) {
        for (size_t T = 1; T <= 18; T++)
            for (size_t N = 1; N <= 18; N++)
                compare(cpu, ref, T, N, false), compare(cpu, ref, T, N, true);
        assert_int_equal(cpu_matmul_count(cpu), 2 * 17 * 18); /* one row needs none */
    }
    device_close(&cpu);
    device_close(&ref);
}

static void devices_of_other_thread_counts_take_turns(void **state) {
    (void)state;
    device *one, *three;
    OK(device_open(&one, DEVICE_CPU, 1));
    OK(device_open(&three, DEVICE_CPU, 3));
    layer a = layer_of(70, 130, 90), b = layer_of(70, 130, 90);
    float *first = fixture_bytes(70 * 130 * sizeof *first);
    step(one, &a);
    memcpy(first, a.y, 70 * 130 * sizeof *first);
    for (int i = 0; i < 2; i++) {
        step(three, &b);
        step(one, &a);
        assert_memory_equal(a.y, first, 70 * 130 * sizeof *first);
        /* 90 products of at most 1, sums of about 3: as in cpu.c. */
        fixture_near("three threads", b.y, a.y, 70 * 130, 18 * EPS, 4.0);
    }
    assert_int_equal(cpu_matmul_count(one), 4);
    assert_int_equal(cpu_matmul_count(three), 4);
    free(first);
    layer_free(&a), layer_free(&b);
    device_close(&one);
    device_close(&three);
}

/* docs/numbers.md: a row does not depend on how many rows there are, nor a shard of the columns on
 * the width. One thread, as the equal-bits tests have. */
static void rows_and_column_shards_keep_their_bits(void **state) {
    (void)state;
    enum { T = 48, N = 192, K = 96, HALF = N / 2 };
    device *d;
    OK(device_open(&d, DEVICE_CPU, 1));
    layer l = layer_of(T, N, K);
    OK(d->ops->linear_forward(d, l.y, l.w, NULL, l.x, T, N, K));
    float *rows = fixture_bytes(T * N * sizeof *rows);
    OK(d->ops->linear_forward(d, rows, l.w, NULL, l.x, T / 2, N, K));
    assert_memory_equal(rows, l.y, T / 2 * N * sizeof *rows);
    OK(d->ops->linear_forward(d, rows, l.w + HALF * K, NULL, l.x, T, HALF, K));
    for (size_t t = 0; t < T; t++)
        assert_memory_equal(rows + t * HALF, l.y + t * N + HALF, HALF * sizeof *rows);
    free(rows);
    layer_free(&l);
    device_close(&d);
}

/* One row (cpu/element/linear.c): each output is a sum of its own, whatever the number of threads and the shard; no
 * element is left out or counted twice, whatever K: sums of small integers are exact. */
static void one_row_is_a_sum_per_output(void **state) {
    (void)state;
    enum { N = 37, K = 101 };
    device *one, *three;
    float y[2][N];
    OK(device_open(&one, DEVICE_CPU, 1));
    OK(device_open(&three, DEVICE_CPU, 3));
    for (size_t k = 1; k <= K; k++) {
        layer l = layer_of(1, N, k);
        OK(one->ops->linear_forward(one, y[0], l.w, l.bias, l.x, 1, N, k));
        OK(three->ops->linear_forward(three, y[1], l.w, l.bias, l.x, 1, N, k));
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        OK(one->ops->linear_forward(one, y[1], l.w + 5 * k, l.bias + 5, l.x, 1, N - 5, k));
        assert_memory_equal(y[0] + 5, y[1], (N - 5) * sizeof *y[0]);
        for (size_t i = 0; i < k; i++) l.x[i] = (float)(i % 7) - 2;
        for (size_t i = 0; i < N * k; i++) l.w[i] = (float)(i % 11) - 4;
        OK(three->ops->linear_forward(three, y[0], l.w, NULL, l.x, 1, N, k));
        for (size_t n = 0; n < N; n++) {
            float sum = 0;
            for (size_t i = 0; i < k; i++) sum += l.w[n * k + i] * l.x[i];
            assert_true(y[0][n] == sum);
        }
        layer_free(&l);
    }
    device_close(&one);
    device_close(&three);
}

/* ---- Products of 16 bits ---- */

typedef struct {
    trine_dtype compute, grads;
} types;

static const types pairs[] = {{TRINE_BF16, TRINE_F32},
                              {TRINE_BF16, TRINE_BF16},
                              {TRINE_F16, TRINE_F32},
                              {TRINE_F16, TRINE_F16}};

#define EACH_PAIR(t) for (const types *t = pairs; t < pairs + sizeof pairs / sizeof *pairs; t++)

/* NULL if the processor has no bf16. */
static device *open_types(device_kind kind, types t) {
    const device_config config = {
        .kind = kind, .threads = 2, .compute = t.compute, .grads = t.grads};
    device *d = NULL;
    if (kind == DEVICE_CPU && t.compute == TRINE_BF16 && !cpu_has_bf16(levels_highest()))
        harness_skipped(HARNESS_NO_BF16);
    else
        OK(device_open_with(&d, &config));
    return d;
}

static void put(trine_dtype type, void *p, size_t i, float x) {
    if (type == TRINE_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = type == TRINE_BF16 ? bf16_store(x) : f16_store(x);
}

static float get(trine_dtype type, const void *p, size_t i) {
    if (type == TRINE_F32) return ((const float *)p)[i];
    uint16_t half = ((const uint16_t *)p)[i];
    return type == TRINE_BF16 ? bf16_load(half) : f16_load(half);
}

/* n copies of x. */
static void *filled(trine_dtype type, size_t n, float x) {
    void *p = fixture_bytes(n * trine_dtype_bytes(type));
    for (size_t i = 0; i < n; i++) put(type, p, i, x);
    return p;
}

static void *random_of(trine_dtype type, size_t n, uint64_t seed) {
    void *p = fixture_bytes(n * trine_dtype_bytes(type));
    for (size_t i = 0; i < n; i++) put(type, p, i, (float)fixture_uniform(&seed));
    return p;
}

/* The distance from 1 to the type's next number. */
static float unit(trine_dtype type) {
    return type == TRINE_BF16 ? 0x1p-7f : type == TRINE_F16 ? 0x1p-10f : 0x1p-23f;
}

static void all_are(trine_dtype type, const void *p, size_t n, float want) {
    for (size_t i = 0; i < n; i++)
        if (get(type, p, i) != want)
            fail_msg("element %zu of %zu is %.9g, not %.9g", i, n, (double)get(type, p, i),
                     (double)want);
}

/* A one and then `terms` - 1 numbers of a quarter of a unit, each of which is lost if the sum is rounded
 * after every addition or after every 512: y and dx must be the sum, rounded once. */
static void check_long_sum(device *d, size_t rows, size_t columns, size_t terms) {
    trine_dtype t = d->compute;
    float quarter = unit(t) / 4.0f, sum = 1.0f + (float)(terms - 1) * quarter;
    void *left = filled(t, rows * terms, quarter), *right = filled(t, terms * columns, 1.0f);
    void *out = filled(t, rows * columns, 7.0f), *want = filled(t, 1, sum);
    for (size_t r = 0; r < rows; r++) put(t, left, r * terms, 1.0f);
    OK(d->ops->linear_forward(d, out, right, NULL, left, rows, columns, terms));
    all_are(t, out, rows * columns, get(t, want, 0));
    OK(d->ops->linear_backward_input(d, out, right, left, rows, terms, columns));
    all_are(t, out, rows * columns, get(t, want, 0));
    free(left), free(right), free(out), free(want);
}

static void a_long_sum_is_rounded_once(void **state) {
    (void)state;
    EACH_PAIR(t) {
        device *d = open_types(DEVICE_CPU, *t);
        if (!d) continue;
        check_long_sum(d, 3, 5, 1283);
        check_long_sum(d, 40, 33, 2051);
        check_long_sum(d, 1030, 66, 1027); /* GEMM's, where y or dx may be */
        check_long_sum(d, 1024, 34, 2050); /* and where dy is larger than a cache */
        device_close(&d);
    }
}

/* A gradient of 1 to which a sum of slightly more than half a unit is added. If the sum is rounded first,
 * it is exactly half a unit, which does not change an even number; if its terms are added one by one
 * to a 16-bit number, they never change it. The sum: T - 1 terms that together are half a unit, and one of
 * 2^-12 of that. */
static void check_added(device *d, size_t T, size_t N, size_t K) {
    trine_dtype t = d->compute, g = d->grads;
    float half = unit(g) / 2.0f, each = half / (float)(T - 1), little = half * 0x1p-12f;
    void *dy = filled(t, T * N, each), *x = filled(t, T * K, 1.0f), *dw = filled(g, N * K, 1.0f);
    for (size_t n = 0; n < N; n++) put(t, dy, (T - 1) * N + n, little);
    OK(d->ops->linear_backward_weight(d, dw, NULL, dy, x, T, N, K, GRAD_ADD));
    all_are(g, dw, N * K, 1.0f + unit(g));
    free(dy), free(x), free(dw);
}

static void a_gradient_is_added_and_rounded_once(void **state) {
    (void)state;
    EACH_PAIR(t) {
        device *d = t->grads == TRINE_F32 ? NULL : open_types(DEVICE_CPU, *t);
        if (!d) continue;
        check_added(d, 5, 7, 3);
        check_added(d, 33, 70, 40);
        check_added(d, 1025, 300, 257); /* GEMM's */
        device_close(&d);
    }
}

/* Products whose 16-bit results are computed in bands, the last band shorter; against ref.
 * In any order of additions, a sum is rounded to one of two neighbours. */
static void compare_large(types t, size_t T, size_t N, size_t K, bool dx) {
    device *ref = open_types(DEVICE_REF, t), *d = open_types(DEVICE_CPU, t);
    trine_dtype out_type = dx ? t.compute : t.grads;
    size_t count = dx ? T * K : N * K;
    void *dy = random_of(t.compute, T * N, 1), *w = random_of(t.compute, dx ? N * K : T * K, 2);
    void *want = filled(out_type, count, 1.0f), *got = filled(out_type, count, 1.0f);
    device *both[] = {ref, d};
    for (int i = 0; d && i < 2; i++) {
        const ops *o = both[i]->ops;
        void *out = i ? got : want;
        if (dx)
            OK(o->linear_backward_input(both[i], out, w, dy, T, N, K));
        else
            OK(o->linear_backward_weight(both[i], out, NULL, dy, w, T, N, K, GRAD_ADD));
    }
    for (size_t i = 0; i < count; i++) {
        double a = (double)get(out_type, got, i), b = (double)get(out_type, want, i);
        if (!(fabs(a - b) <= (double)unit(out_type) * fmax(1.0, fabs(b))))
            fail_msg("element %zu is %.9g, not %.9g", i, a, b);
    }
    free(dy), free(w), free(want), free(got);
    device_close(&ref);
    device_close(&d);
}

static void bands_are_the_whole_product(void **state) {
    (void)state;
    const types bf16 = {TRINE_BF16, TRINE_BF16}, f16 = {TRINE_F16, TRINE_F16};
    compare_large(bf16, 33, 2749, 769, false); /* two bands of 1375 and 1374 rows */
    compare_large(bf16, 66001, 33, 33, true);
    compare_large(f16, 33, 1030, 520, false); /* and blocks, of fp16 */
    compare_large(f16, 520, 600, 33, true);
}

/* Like the fp32 cases above: the basis of the matmuls' promises of equal bits. */
static void rows_and_shards_of_16_bits_keep_theirs(void **state) {
    (void)state;
    enum { T = 48, N = 192, K = 96, HALF = N / 2 };
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p += 2) {
        device *d = open_types(DEVICE_CPU, pairs[p]);
        if (!d) continue;
        uint16_t *x = random_of(d->compute, T * K, 1), *w = random_of(d->compute, N * K, 2);
        uint16_t *y = filled(d->compute, T * N, 0.0f), *part = filled(d->compute, T * N, 0.0f);
        OK(d->ops->linear_forward(d, y, w, NULL, x, T, N, K));
        OK(d->ops->linear_forward(d, part, w, NULL, x, T / 2, N, K));
        assert_memory_equal(part, y, T / 2 * N * sizeof *y);
        OK(d->ops->linear_forward(d, part, w + HALF * K, NULL, x, T, HALF, K));
        for (size_t t = 0; t < T; t++)
            assert_memory_equal(part + t * HALF, y + t * N + HALF, HALF * sizeof *y);
        free(x), free(w), free(y), free(part);
        device_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_step_makes_no_primitives),
        cmocka_unit_test(many_shapes_are_told_apart),
        cmocka_unit_test(devices_of_other_thread_counts_take_turns),
        cmocka_unit_test(rows_and_column_shards_keep_their_bits),
        cmocka_unit_test(one_row_is_a_sum_per_output),
        cmocka_unit_test(a_long_sum_is_rounded_once),
        cmocka_unit_test(a_gradient_is_added_and_rounded_once),
        cmocka_unit_test(bands_are_the_whole_product),
        cmocka_unit_test(rows_and_shards_of_16_bits_keep_theirs),
    };
    return HARNESS_RUN_ALONE(tests);
}
