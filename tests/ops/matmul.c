/* TEST np=0 */
/* The primitive cache of the cpu device: one primitive per product and shape, made once, also when
 * devices of different thread counts take turns. Values are compared in cpu.c. */
#include "ops/fixture.h"

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

/* More shapes than the table has buckets: the chains hold them all, and tell them apart. */
static void many_shapes_are_told_apart(void **state) {
    (void)state;
    device *cpu, *ref;
    OK(device_open(&cpu, DEVICE_CPU, 1));
    OK(device_open(&ref, DEVICE_REF, 1));
    for (int round = 0; round < 2; round++) {
        for (size_t T = 1; T <= 18; T++)
            for (size_t N = 1; N <= 18; N++)
                compare(cpu, ref, T, N, false), compare(cpu, ref, T, N, true);
        assert_int_equal(cpu_matmul_count(cpu), 2 * 18 * 18);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_step_makes_no_primitives),
        cmocka_unit_test(many_shapes_are_told_apart),
        cmocka_unit_test(devices_of_other_thread_counts_take_turns),
        cmocka_unit_test(rows_and_column_shards_keep_their_bits),
    };
    return HARNESS_RUN_ALONE(tests);
}
