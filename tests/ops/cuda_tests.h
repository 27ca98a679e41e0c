/* The tests of the cuda device, for the emulation and for GPUs: the including file chooses. */
#ifndef TRINE_TESTS_OPS_CUDA_TESTS_H
#define TRINE_TESTS_OPS_CUDA_TESTS_H

#include "ops/compare.h"
#include "ops/staged.h"

static staged_kind kind;

static device *opened(void) {
    char why[256];
    device *d = staged_open(kind, why, sizeof why);
    assert_non_null(d);
    return d;
}

static void cuda_equals_ref(void **state) {
    (void)state;
    device *d = opened();
    all_equal_ref(d);
    staged_close(&d);
}

static void nan_comes_out_where_ref_says(void **state) {
    (void)state;
    device *d = opened();
    all_nans_come_out(d);
    staged_close(&d);
}

static void infinity_is_not_lost(void **state) {
    (void)state;
    device *d = opened();
    all_infinities_come_out(d);
    staged_close(&d);
}

static void alignment_changes_no_bit(void **state) {
    (void)state;
    device *d = opened();
    no_address_changes_a_bit(d);
    staged_close(&d);
}

/* The emulation uses another random order of thread blocks and threads each time, also where ops/cuda.c runs
 * everything but products on GPUs of two sizes. */
static void repeated_runs_change_no_bit(void **state) {
    (void)state;
    device *d = opened();
    EACH_SHAPE(c, s) {
        if (kind == STAGED_EMULATED && !c->matmul) continue;
        same_bits(c, s, output_of(d, c, s, SIZE_MAX, 0.0f), output_of(d, c, s, SIZE_MAX, 0.0f),
                  "in another run");
    }
    staged_close(&d);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void memory_is_zero_and_aligned(void **state) {
    (void)state;
    device *d = opened(), *inner = &((staged *)d->state)->inner;
    assert_false(inner->memory->host);
    const size_t sizes[] = {1, 4096, (5 << 20) + 3};
    for (size_t i = 0; i < 3; i++) {
        void *p;
        char *back = fixture_bytes(sizes[i]);
        OK(device_alloc(inner, &p, sizes[i]));
        assert_int_equal((uintptr_t)p % 256, 0);
        memset(back, 0x5a, sizes[i]);
        OK(device_read(inner, back, p, sizes[i]));
        for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(back[j], 0);
        device_free(inner, p, sizes[i]);
        free(back);
    }
    staged_close(&d);
}

/* A read returns the results of earlier work in the queue, and nothing of later work. */
static void memory_is_read_in_the_order_of_the_queue(void **state) {
    (void)state;
    enum { N = 5000 };
    device *d = opened(), *inner = &((staged *)d->state)->inner;
    float *x = fixture_random(N, 1, 1.0), back[N];
    void *a, *b;
    OK(device_alloc(inner, &a, N * sizeof *x));
    OK(device_alloc(inner, &b, N * sizeof *x));
    OK(device_write(inner, a, x, N * sizeof *x));
    device_copy(inner, b, a, N * sizeof *x);
    OK(inner->ops->add(inner, b, a, N));
    device_zero(inner, a, 100 * sizeof *x);
    OK(device_read(inner, back, b, N * sizeof *x));
    for (size_t i = 0; i < N; i++) assert_true(back[i] == 2.0f * x[i]);
    OK(inner->ops->add(inner, b, a, N));
    OK(device_wait(inner));
    OK(device_read(inner, back, b, N * sizeof *x));
    for (size_t i = 0; i < N; i++)
        assert_true(back[i] == (i < 100 ? 2.0f : 3.0f) * x[i] || i >= 100);
    device_free(inner, a, N * sizeof *x), device_free(inner, b, N * sizeof *x);
    free(x);
    staged_close(&d);
}

/* Rows of a matrix are read contiguously, after the earlier work in the queue. */
static void rows_are_read(void **state) {
    (void)state;
    enum { ROWS = 7, COLS = 13, PART = 5, AT = 3 };
    device *d = opened(), *inner = &((staged *)d->state)->inner;
    float *x = fixture_random(ROWS * COLS, 1, 1.0), back[ROWS * PART];
    const size_t bytes = ROWS * COLS * sizeof *x;
    void *a, *b;
    OK(device_alloc(inner, &a, bytes));
    OK(device_alloc(inner, &b, bytes));
    OK(device_write(inner, a, x, bytes));
    device_copy(inner, b, a, bytes);
    OK(device_read_rows(inner, back, (float *)b + AT, COLS * sizeof *x, PART * sizeof *x, ROWS));
    for (size_t r = 0; r < ROWS; r++)
        assert_memory_equal(back + r * PART, x + r * COLS + AT, PART * sizeof *x);
    device_free(inner, a, bytes), device_free(inner, b, bytes);
    free(x);
    staged_close(&d);
}

static void too_much_memory_is_refused(void **state) {
    (void)state;
    device *d = opened(), *inner = &((staged *)d->state)->inner;
    void *p;
    REFUSED(device_alloc(inner, &p, (size_t)1 << 50), TRINE_ENOMEM,
            "no memory for 1125899906842624 bytes on GPU");
    OK(device_wait(inner)); /* and the queue has no pending error */
    staged_close(&d);
}

static void a_gpu_says_what_it_is(void **state) {
    (void)state;
    device *d = opened();
    const staged *s = d->state;
    cuda_info info;
    OK(s->backend->info(&s->inner, &info));
    assert_true(strlen(info.model) > 0 && strlen(info.bus) > 0);
    assert_true(info.bytes > 0 && info.free_bytes <= info.bytes && info.multiprocessors > 0);
    assert_true(info.sm >= 70 && info.driver >= 12000 && info.runtime >= 12000);
    staged_close(&d);
}

static void host_memory_is_pinned_and_let_go(void **state) {
    (void)state;
    enum { BYTES = 1 << 16 };
    device *d = opened();
    staged *s = d->state;
    void *host = NULL, *p;
    assert_int_equal(posix_memalign(&host, 4096, BYTES), 0);
    memset(host, 7, BYTES);
    OK(s->backend->pin(&s->inner, host, BYTES));
    OK(device_alloc(&s->inner, &p, BYTES));
    OK(device_write(&s->inner, p, host, BYTES));
    memset(host, 0, BYTES);
    OK(device_read(&s->inner, host, p, BYTES));
    assert_int_equal(((char *)host)[BYTES - 1], 7);
    device_free(&s->inner, p, BYTES);
    s->backend->unpin(&s->inner, host);
    free(host);
    staged_close(&d);
}

static void a_gpu_that_is_not_there_is_refused(void **state) {
    (void)state;
    device *d = opened();
    const staged *s = d->state;
    device other = s->inner;
    other.state = NULL;
    REFUSED(s->backend->open(&other, 4096), TRINE_EUNSUPPORTED, "GPU 4096");
    assert_null(other.state);
    staged_close(&d);
}

#define CUDA_TESTS                                                                                 \
    cmocka_unit_test(cuda_equals_ref), cmocka_unit_test(nan_comes_out_where_ref_says),             \
        cmocka_unit_test(infinity_is_not_lost), cmocka_unit_test(alignment_changes_no_bit),        \
        cmocka_unit_test(repeated_runs_change_no_bit),                                             \
        cmocka_unit_test(memory_is_zero_and_aligned),                                              \
        cmocka_unit_test(memory_is_read_in_the_order_of_the_queue),                                \
        cmocka_unit_test(rows_are_read), cmocka_unit_test(too_much_memory_is_refused),             \
        cmocka_unit_test(a_gpu_says_what_it_is),                                                   \
        cmocka_unit_test(host_memory_is_pinned_and_let_go),                                        \
        cmocka_unit_test(a_gpu_that_is_not_there_is_refused)

#endif
