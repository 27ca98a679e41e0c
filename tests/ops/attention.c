/* TEST np=0 */
/* Attention where the values are unusual, on every device that there is: a softmax that is put
 * together from tiles must not show where they end. */
#include "ops/staged.h"

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
    void *work = fixture_bytes(d->ops->attention_workspace(d, 1, T, 1, D));
    OK(d->ops->attention_forward(d, h->y, h->lse, h->qkv, work, NULL, 1, T, 1, D));
    OK(d->ops->attention_backward(d, h->dqkv, h->dy, h->qkv, h->y, h->lse, work, NULL, 1, T, 1, D));
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

/* Rows up to `nothing` have scores of -infinity only; later ones are what they are without
 * these. */
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

/* One key is ahead of all by hundreds: its row's softmax is a one, to the last bit, and the others'
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

static void heads_too_wide_for_a_gpu_are_refused(void **state) {
    (void)state;
    float *p = fixture_random(5 * 257, 1, 1.0);
    EACH_DEVICE(d) {
        if (!is_staged(d)) continue;
        REFUSED(d->ops->attention_forward(d, p + 771, p, p, p, NULL, 1, 1, 1, 257),
                TRINE_EUNSUPPORTED, "257");
        REFUSED(d->ops->attention_backward(d, p, p + 771, p, p, p, p, NULL, 1, 1, 1, 257),
                TRINE_EUNSUPPORTED, "257");
    }
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_may_begin_with_nothing),
        cmocka_unit_test(the_largest_score_takes_all),
        cmocka_unit_test(heads_too_wide_for_a_gpu_are_refused),
    };
    return HARNESS_RUN_ALONE(tests);
}
