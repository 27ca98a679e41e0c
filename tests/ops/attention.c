/* TEST np=0 device */
/* Attention with unusual values, on every available device: a softmax that is computed in tiles
 * must not depend on the tile boundaries. */
#include "base/half.h"
#include "base/levels.h"
#include "device/cpu/cpu.h"
#include "ops/compare.h"

enum { T = 130, D = 16, ROW = 3 * D };

/* One sample, one head: qkv (T, 3, D) -> y (T, D), lse (T), dqkv (T, 3, D). */
typedef struct {
    float *qkv, *dy, *y, *lse, *dqkv;
} head;

static head head_of(const float *qkv, const float *dy) {
    return (head){fixture_copy(qkv, T * ROW), fixture_copy(dy, T * D),
                  fixture_random(T * D, 3, 1.0), fixture_random(T, 4, 1.0),
                  fixture_random(T * ROW, 5, 1.0)};
}

static void head_free(head *h) {
    free(h->qkv), free(h->dy), free(h->y), free(h->lse), free(h->dqkv);
}

static void run(device *d, head *h) {
    void *work = fixture_bytes(d->ops->attention_workspace(d, 1, T, 1, 1, D));
    OK(d->ops->attention_forward(d, h->y, h->lse, h->qkv, NULL, work, NULL, 1, T, 1, 1, D));
    OK(d->ops->attention_backward(d, h->dqkv, h->dy, h->qkv, h->y, h->lse, NULL, work, NULL, 1, T,
                                  1, 1, D));
    free(work);
}

static head on_ref(const float *qkv, const float *dy) {
    head h = head_of(qkv, dy);
    device *ref;
    OK(device_open(&ref, DEVICE_REF, 1));
    run(ref, &h);
    device_close(&ref);
    return h;
}

/* Rows up to `nothing` have scores of -infinity only; later rows are not affected by them. */
static void a_row_may_begin_with_nothing(void **state) {
    (void)state;
    const size_t nothing = 70;
    float *qkv = fixture_random(T * ROW, 1, 2.0), *dy = fixture_random(T * D, 2, 2.0);
    for (size_t t = 0; t < T; t++) {
        qkv[t * ROW] = 1.0f;                           /* q */
        if (t < nothing) qkv[t * ROW + D] = -INFINITY; /* k */
    }
    head want = on_ref(qkv, dy);
    EACH_DEVICE(d) {
        head got = head_of(qkv, dy);
        run(d, &got);
        for (size_t t = 0; t < nothing; t++) assert_true(!isfinite(got.y[t * D]));
        for (size_t t = nothing; t < T; t++) assert_true(isfinite(want.y[t * D]));
        /* The bound of compare.h for sums of T - nothing terms. */
        fixture_near(d->name, got.y + nothing * D, want.y + nothing * D,
                     ((size_t)T - nothing) * (size_t)D, 16 * EPS, 4.0);
        fixture_near(d->name, got.lse + nothing, want.lse + nothing, (size_t)T - nothing, 16 * EPS,
                     4.0);
        head_free(&got);
    }
    head_free(&want);
    free(qkv), free(dy);
}

/* The score of one key exceeds all others by hundreds: its probability is exactly one and the other
 * exponentials vanish. No exponential of a score itself would be finite. */
static void the_largest_score_takes_all(void **state) {
    (void)state;
    float *qkv = fixture_random(T * ROW, 1, 1.0), *dy = fixture_random(T * D, 2, 1.0);
    for (size_t t = 0; t < T; t++) {
        qkv[t * ROW] = 30.0f;                                       /* q */
        qkv[t * ROW + D] = t % 50 == 0 ? 30.0f + (float)t : -30.0f; /* k */
    }
    EACH_DEVICE(d) {
        head got = head_of(qkv, dy);
        run(d, &got);
        for (size_t t = 0; t < T; t++) {
            const float *v = qkv + t / 50 * 50 * ROW + 2 * D;
            for (size_t i = 0; i < D; i++) assert_true(got.y[t * D + i] == v[i]);
            assert_true(got.lse[t] > 150.0f && isfinite(got.lse[t]));
            for (size_t i = 0; i < D; i++) assert_true(isfinite(got.dqkv[t * ROW + i]));
        }
        head_free(&got);
    }
    free(qkv), free(dy);
}

/* Elements are finite where ref's are, and near ref's within the bounds of compare.h. */
static void same_where_finite(const device *d, const char *what, float *got, float *want, size_t n,
                              double way) {
    const double root = sqrt((double)T);
    type_bound b = bound_of(d->compute);
    b.way = way;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(got[i]) != isfinite(want[i]))
            fail_msg("%s, %s: element %zu is %.9g, not %.9g", type_text(d->compute), what, i,
                     (double)got[i], (double)want[i]);
        if (!isfinite(got[i])) got[i] = want[i] = 0.0f;
    }
    near_typed(what, d->compute, got, want, n, EPS * (8.0 + root), 1.0 + root / 3.0, b);
}

/* A NaN in column `at` of q, k, v, dy side by side, in a row in the middle of a tile. */
static void poison_one(device *d, const char *what, size_t at) {
    const size_t row = 70;
    float *qkv = fixture_random(T * ROW, 1, 2.0), *dy = fixture_random(T * D, 2, 2.0);
    *(at < ROW ? &qkv[row * ROW + at] : &dy[row * D + at - ROW]) = NAN;
    head got = head_of(qkv, dy), want = head_of(qkv, dy);
    device *ref = ref_of(d);
    run(d, &got);
    run(ref, &want);
    each_close(&ref);
    same_where_finite(d, what, got.y, want.y, T * D, 1.0);
    same_where_finite(d, what, got.dqkv, want.dqkv, T * ROW, 4.0);
    head_free(&got), head_free(&want);
    free(qkv), free(dy);
}

/* Tensor cores multiply full tiles, with zeros for masked keys; a NaN there would still affect the
 * query. */
static void tiles_of_a_gpu_hide_what_is_not_seen(void **state) {
    (void)state;
    const trine_dtype types[] = {TRINE_BF16, TRINE_F16};
    for (int i = 0; i < 2 * STAGED_KINDS; i++) {
        char why[256];
        device *d =
            staged_open_floats((staged_kind)(i / 2), types[i % 2], TRINE_F32, why, sizeof why);
        if (!d) continue;
        poison_one(d, "NaN in v", 2 * D + 3);
        poison_one(d, "NaN in q", 3);
        poison_one(d, "NaN in k", D + 3);
        poison_one(d, "NaN in dy", 3 * D + 3);
        each_close(&d);
    }
}

static void heads_too_wide_for_a_gpu_are_refused(void **state) {
    (void)state;
    enum { WIDE = 257 };
    float *p = fixture_random(8 * WIDE, 1, 1.0), *y = p + 3 * WIDE, *dqkv = y + WIDE;
    float lse[1] = {0}, work[1] = {0};
    EACH_DEVICE(d) {
        if (!is_staged(d)) continue;
        REFUSED(d->ops->attention_forward(d, y, lse, p, NULL, work, NULL, 1, 1, 1, 1, WIDE),
                TRINE_EUNSUPPORTED, "257");
        REFUSED(
            d->ops->attention_backward(d, dqkv, y, p, y, lse, NULL, work, NULL, 1, 1, 1, 1, WIDE),
            TRINE_EUNSUPPORTED, "257");
    }
    free(p);
}

/* ---- Bits that the cpu device guarantees, in each of its types ---- */

static const trine_dtype all_types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};

#define TYPES (sizeof all_types / sizeof *all_types)

/* NULL if the processor has no bf16. */
static device *open_type(trine_dtype type) {
    const device_config config = {.kind = DEVICE_CPU, .threads = 2, .compute = type};
    device *d = NULL;
    if (type == TRINE_BF16 && !cpu_has_bf16(levels_highest()))
        harness_skipped(HARNESS_NO_BF16);
    else
        OK(device_open_with(&d, &config));
    return d;
}

/* n numbers of a type, uniform in [-2, 2). */
static void *typed_random(trine_dtype type, size_t n, uint64_t seed) {
    float *x = fixture_random(n, seed, 2.0);
    uint16_t *halves = (uint16_t *)x; /* in place: the write position follows the read position */
    for (size_t i = 0; i < n && type != TRINE_F32; i++) {
        float one;
        memcpy(&one, x + i, sizeof one);
        uint16_t half = type == TRINE_BF16 ? bf16_store(one) : f16_store(one);
        memcpy(halves + i, &half, sizeof half);
    }
    return x;
}

/* Sizes of a call, and its operands in the device's type. */
typedef struct {
    size_t B, T, H, K, D;
    char *qkv, *dy, *y, *dqkv;
    float *lse;
} call;

static call call_of(const device *d, size_t B, size_t T_, size_t H, size_t K, size_t D_) {
    size_t n = B * T_ * H * D_, all = B * T_ * (H + 2 * K) * D_;
    return (call){B,
                  T_,
                  H,
                  K,
                  D_,
                  typed_random(d->compute, all, 1),
                  typed_random(d->compute, n, 2),
                  typed_random(d->compute, n, 3),
                  typed_random(d->compute, all, 4),
                  fixture_random(B * H * T_, 5, 1.0)};
}

static void call_free(call *c) {
    free(c->qkv), free(c->dy), free(c->y), free(c->dqkv), free(c->lse);
}

static void run_call(device *d, call *c, const dropout_args *drop) {
    size_t bytes = d->ops->attention_workspace(d, c->B, c->T, c->H, c->K, c->D);
    void *work = fixture_bytes(bytes);
    memset(work, 0xff, bytes); /* NaNs */
    OK(d->ops->attention_forward(d, c->y, c->lse, c->qkv, NULL, work, drop, c->B, c->T, c->H, c->K,
                                 c->D));
    OK(d->ops->attention_backward(d, c->dqkv, c->dy, c->qkv, c->y, c->lse, NULL, work, drop, c->B,
                                  c->T, c->H, c->K, c->D));
    free(work);
}

static const dropout_args dropped = {.p = 0.2f, .key = 11, .sample = 100, .first = 3};

/* Rows [0, before) of one head's queries: y, lse and dq, which do not depend on later keys or rows. */
static void same_rows(const device *d, const call *a, const call *b, size_t before) {
    size_t bytes = trine_dtype_bytes(d->compute) * a->D;
    assert_memory_equal(a->y, b->y, before * bytes);
    assert_memory_equal(a->lse, b->lse, before * sizeof *a->lse);
    for (size_t t = 0; t < before; t++)
        assert_memory_equal(a->dqkv + t * 3 * bytes, b->dqkv + t * 3 * bytes, bytes);
}

static void rows_do_not_depend_on_the_length(void **state) {
    (void)state;
    for (size_t i = 0; i < TYPES; i++) {
        device *d = open_type(all_types[i]);
        if (!d) continue;
        call longer = call_of(d, 1, 130, 1, 1, 24), shorter = call_of(d, 1, 101, 1, 1, 24);
        run_call(d, &longer, NULL);
        run_call(d, &shorter, NULL);
        same_rows(d, &shorter, &longer, 101);
        call_free(&longer), call_free(&shorter);
        device_close(&d);
    }
}

/* NaNs in all later rows: earlier rows must not depend on them, with or without dropout. */
static void no_row_sees_what_comes_later(void **state) {
    (void)state;
    enum { LENGTH = 92, BEFORE = 41, WIDTH = 24 };
    for (size_t i = 0; i < 2 * TYPES; i++) {
        device *d = open_type(all_types[i / 2]);
        if (!d) continue;
        size_t element = trine_dtype_bytes(d->compute);
        const dropout_args *drop = i % 2 ? &dropped : NULL;
        call all = call_of(d, 1, LENGTH, 1, 1, WIDTH),
             poisoned = call_of(d, 1, LENGTH, 1, 1, WIDTH);
        memset(poisoned.qkv + BEFORE * 3 * WIDTH * element, 0xff,
               (LENGTH - BEFORE) * 3 * WIDTH * element);
        run_call(d, &all, drop);
        run_call(d, &poisoned, drop);
        same_rows(d, &all, &poisoned, BEFORE);
        call_free(&all), call_free(&poisoned);
        device_close(&d);
    }
}

/* Where the heads of a call's qkv are that its part of query heads from `first` on has: its queries, its keys
 * and its values, a number of heads of each. */
typedef struct {
    size_t from, to, count;
} heads;

static void heads_of(heads found[3], const call *c, const call *part, size_t first) {
    size_t kv = c->H + first / (c->H / c->K);
    found[0] = (heads){first, 0, part->H};
    found[1] = (heads){kv, part->H, part->K};
    found[2] = (heads){kv + c->K, part->H + part->K, part->K};
}

static char *head_in(const device *d, const call *c, char *x, size_t row, size_t which) {
    return x + (row * (c->H + 2 * c->K) + which) * c->D * trine_dtype_bytes(d->compute);
}

/* Query heads [first, first + some) of sample b of a call and the `kv` key and value heads that they read, with
 * their slices of its operands. */
static call part_of(const device *d, const call *c, size_t b, size_t first, size_t some,
                    size_t kv) {
    size_t bytes = trine_dtype_bytes(d->compute) * c->D;
    call part = call_of(d, 1, c->T, some, kv, c->D);
    heads from[3];
    heads_of(from, c, &part, first);
    for (size_t t = 0; t < c->T; t++) {
        size_t row = b * c->T + t;
        for (size_t k = 0; k < 3; k++)
            memcpy(head_in(d, &part, part.qkv, t, from[k].to),
                   head_in(d, c, c->qkv, row, from[k].from), from[k].count * bytes);
        memcpy(part.dy + t * some * bytes, c->dy + (row * c->H + first) * bytes, some * bytes);
    }
    return part;
}

/* y, and the first `which` of dq, dk, dv. */
static void same_part(const device *d, const call *c, const call *part, size_t b, size_t first,
                      size_t which) {
    size_t bytes = trine_dtype_bytes(d->compute) * c->D, some = part->H;
    heads from[3];
    heads_of(from, c, part, first);
    for (size_t t = 0; t < c->T; t++) {
        size_t row = b * c->T + t;
        assert_memory_equal(part->y + t * some * bytes, c->y + (row * c->H + first) * bytes,
                            some * bytes);
        for (size_t k = 0; k < which; k++)
            assert_memory_equal(head_in(d, part, part->dqkv, t, from[k].to),
                                head_in(d, c, c->dqkv, row, from[k].from), from[k].count * bytes);
    }
}

/* Split by heads as with tp, and by samples as with smaller micro-batches, for lengths that are a multiple
 * of four (whose rows start at a block of the mask) and others. */
static void heads_and_samples_have_their_own_masks(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * TYPES; i++) {
        device *d = open_type(all_types[i / 2]);
        if (!d) continue;
        call all = call_of(d, 2, i % 2 ? 47 : 44, 3, 3, 20);
        run_call(d, &all, &dropped);
        for (size_t b = 0; b < 2; b++) {
            dropout_args drop = dropped;
            drop.sample += b, drop.first += 1;
            call part = part_of(d, &all, b, 1, 2, 2);
            run_call(d, &part, &drop);
            same_part(d, &all, &part, b, 1, 3);
            call_free(&part);
        }
        call_free(&all);
        device_close(&d);
    }
}

/* Ranks of tp with one group of query heads each, and ranks that share a key and value head: of those, dk and dv
 * are parts of the sums. */
static void a_rank_may_have_a_group_or_a_part_of_one(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * TYPES; i++) {
        device *d = open_type(all_types[i / 2]);
        if (!d) continue;
        call all = call_of(d, 2, i % 2 ? 47 : 44, 6, 2, 20);
        run_call(d, &all, &dropped);
        for (size_t first = 0; first < 6; first++) {
            size_t some = first % 3 == 0 ? 3 : 6 - first < 2 ? 1 : first % 3 == 1 ? 2 : 1;
            dropout_args drop = dropped;
            drop.sample += 1, drop.first += first;
            call part = part_of(d, &all, 1, first, some, 1);
            run_call(d, &part, &drop);
            same_part(d, &all, &part, 1, first, some == 3 ? 3 : 1);
            call_free(&part);
        }
        call_free(&all);
        device_close(&d);
    }
}

/* More threads than key and value heads, more than query heads, and numbers of threads at which a group begins
 * on one thread's turn and ends on a later one. */
static void a_group_has_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 4, 5, 7, 16};
    for (size_t i = 0; i < TYPES * sizeof threads / sizeof *threads; i++) {
        device *one = open_type(all_types[i % TYPES]), *d;
        if (!one) continue;
        const device_config config = {
            .kind = DEVICE_CPU, .threads = threads[i / TYPES], .compute = one->compute};
        OK(device_open_with(&d, &config));
        call want = call_of(one, 2, 37, 6, 2, 20), got = call_of(one, 2, 37, 6, 2, 20);
        run_call(one, &want, &dropped);
        run_call(d, &got, &dropped);
        size_t bytes = trine_dtype_bytes(d->compute) * 2 * 37 * 20;
        assert_memory_equal(got.y, want.y, 6 * bytes);
        assert_memory_equal(got.dqkv, want.dqkv, 10 * bytes);
        call_free(&want), call_free(&got);
        device_close(&one), device_close(&d);
    }
}

/* ---- With a cache ---- */

/* y of the rows of one sample, `step` rows per call (fewer in the last), with a cache of `capacity` positions that
 * contains NaNs where nothing has been stored yet. */
static char *cached_rows(device *d, const call *c, size_t step, size_t capacity) {
    size_t one = trine_dtype_bytes(d->compute) * c->D, kept = capacity * c->K * one;
    char *y = fixture_bytes(c->T * c->H * one), *keys = fixture_bytes(kept);
    char *values = fixture_bytes(kept);
    void *work = fixture_bytes(d->ops->attention_workspace(d, 1, capacity, c->H, c->K, c->D));
    memset(keys, 0xff, kept), memset(values, 0xff, kept);
    for (size_t t = 0; t < c->T; t += step)
        OK(d->ops->attention_cached(d, y + t * c->H * one, keys, values,
                                    head_in(d, c, c->qkv, t, 0), work, t,
                                    c->T - t < step ? c->T - t : step, capacity, c->H, c->K, c->D));
    free(keys), free(values), free(work);
    return y;
}

static void check_cached(device *d, const call *c) {
    static const size_t steps[] = {1, 5, 8, 33, 150};
    size_t bytes = trine_dtype_bytes(d->compute) * c->T * c->H * c->D;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *y = cached_rows(d, c, steps[i], c->T + 11 * (i % 2));
        if (memcmp(y, c->y, bytes) != 0)
            fail_msg("%s, K %zu, D %zu: %zu rows at a time differ", d->name, c->K, c->D, steps[i]);
        free(y);
    }
}

/* For any padding of the width, any number of rows, and any number of key and value heads. */
static void a_cache_changes_no_bit(void **state) {
    (void)state;
    static const size_t sizes[][3] = {
        {2, 2, 24}, {2, 2, 64}, {6, 3, 20}, {3, 1, 128}}; /* H, K, D */
    for (size_t i = 0; i < 4 * TYPES; i++) {
        const device_config config = {
            .kind = DEVICE_REF, .threads = 1, .compute = all_types[i / 4]};
        const size_t *n = sizes[i % 4];
        device *cpu = open_type(all_types[i / 4]), *ref;
        OK(device_open_with(&ref, &config));
        for (int which = 0; which < 2; which++) {
            device *d = which ? ref : cpu;
            if (!d) continue;
            call c = call_of(d, 1, which ? 40 : 131, n[0], n[1], n[2]);
            run_call(d, &c, NULL);
            check_cached(d, &c);
            call_free(&c);
        }
        if (cpu) device_close(&cpu);
        device_close(&ref);
    }
}

/* Also on a GPU for any number of rows per call; sums of attention_forward have another order. */
static void nor_do_rows_at_a_time_on_a_gpu(void **state) {
    (void)state;
    EACH_DEVICE(d) {
        if (!is_staged(d) || d->compute != TRINE_F32) continue;
        for (size_t H = 1; H <= 4; H += 3) { /* K is 1 and 2 */
            call c = call_of(d, 1, 140, H, (H + 1) / 2, 20);
            run_call(d, &c, NULL);
            char *all = cached_rows(d, &c, 140, 150), *some = cached_rows(d, &c, 47, 140);
            assert_memory_equal(all, some, c.T * H * c.D * sizeof(float));
            /* The bound of compare.h for sums of T terms. */
            fixture_near(d->name, (float *)(void *)all, (float *)(void *)c.y, c.T * H * c.D,
                         EPS * (8 + sqrt(140.0)), 1 + sqrt(140.0) / 3);
            free(all), free(some);
            call_free(&c);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_may_begin_with_nothing),
        cmocka_unit_test(the_largest_score_takes_all),
        cmocka_unit_test(tiles_of_a_gpu_hide_what_is_not_seen),
        cmocka_unit_test(heads_too_wide_for_a_gpu_are_refused),
        cmocka_unit_test(rows_do_not_depend_on_the_length),
        cmocka_unit_test(no_row_sees_what_comes_later),
        cmocka_unit_test(heads_and_samples_have_their_own_masks),
        cmocka_unit_test(a_rank_may_have_a_group_or_a_part_of_one),
        cmocka_unit_test(a_group_has_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(a_cache_changes_no_bit),
        cmocka_unit_test(nor_do_rows_at_a_time_on_a_gpu),
    };
    return HARNESS_RUN_ALONE(tests);
}
