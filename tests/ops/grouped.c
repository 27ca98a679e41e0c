/* TEST np=0 device */
/* Attention with fewer key and value heads than query heads against the same with a copy of its key and value
 * head for each query head, on every available device and in every type. */
#include "ops/compare.h"

static const trine_dtype all_types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};

#define TYPES (int)(sizeof all_types / sizeof *all_types)

static const dropout_args dropped = {.p = 0.2f, .key = 11, .sample = 100, .first = 3};

/* Sizes and operands of a call. */
typedef struct {
    size_t B, T, H, K, D;
    const dropout_args *drop;
    float *qkv, *dy, *y, *lse, *dqkv;
} grouped;

static grouped grouped_of(size_t B, size_t T_, size_t H, size_t K, size_t D_,
                          const dropout_args *drop) {
    size_t n = B * T_ * H * D_, all = B * T_ * (H + 2 * K) * D_;
    return (grouped){B,
                     T_,
                     H,
                     K,
                     D_,
                     drop,
                     fixture_random(all, 1, 2.0),
                     fixture_random(n, 2, 1.0),
                     fixture_random(n, 3, 1.0),
                     fixture_random(B * H * T_, 4, 1.0),
                     fixture_random(all, 5, 1.0)};
}

static void grouped_free(grouped *g) {
    free(g->qkv), free(g->dy), free(g->y), free(g->lse), free(g->dqkv);
}

static float *grouped_head(const grouped *g, float *x, size_t row, size_t head) {
    return x + (row * (g->H + 2 * g->K) + head) * g->D;
}

/* The key (0) or value (1) head of query head h. */
static size_t kv_of(const grouped *g, size_t h, size_t which) {
    return g->H + which * g->K + h / (g->H / g->K);
}

static grouped repeated(const grouped *g) {
    grouped r = grouped_of(g->B, g->T, g->H, g->H, g->D, g->drop);
    const size_t bytes = g->D * sizeof(float);
    for (size_t row = 0; row < g->B * g->T; row++)
        for (size_t h = 0; h < g->H; h++) {
            memcpy(grouped_head(&r, r.qkv, row, h), grouped_head(g, g->qkv, row, h), bytes);
            for (size_t k = 0; k < 2; k++)
                memcpy(grouped_head(&r, r.qkv, row, kv_of(&r, h, k)),
                       grouped_head(g, g->qkv, row, kv_of(g, h, k)), bytes);
        }
    return r;
}

static void run_grouped(device *d, grouped *g) {
    void *work = fixture_bytes(d->ops->attention_workspace(d, g->B, g->T, g->H, g->K, g->D));
    OK(d->ops->attention_forward(d, g->y, g->lse, g->qkv, NULL, work, g->drop, g->B, g->T, g->H,
                                 g->K, g->D));
    OK(d->ops->attention_backward(d, g->dqkv, g->dy, g->qkv, g->y, g->lse, NULL, work, g->drop,
                                  g->B, g->T, g->H, g->K, g->D));
    free(work);
}

/* Element i of the gradient of key or value head `head` is the sum of those of its copies. In fp32 on cpu it is that
 * very sum. In 16 bits the terms and the sum are rounded, half a unit each. Where one sum runs on from query head to
 * query head instead, its additions are rounded differently: the bound of compare.h for T H / K terms. */
static void check_sum(const device *d, const grouped *g, const grouped *r, size_t row, size_t head,
                      size_t i) {
    const size_t group = g->H / g->K, kv = (head - g->H) % g->K, which = (head - g->H) / g->K;
    const double got = (double)grouped_head(g, g->dqkv, row, head)[i];
    const double terms = sqrt((double)(g->T * group));
    double bound = EPS * (8.0 + terms) * (1.0 + terms / 3.0 + fabs(got));
    float sum = 0.0f;
    if (d->compute != TRINE_F32) bound += unit_in(d->compute, got) / 2;
    for (size_t h = kv * group; h < (kv + 1) * group; h++) {
        float term = grouped_head(r, r->dqkv, row, kv_of(r, h, which))[i];
        sum = h == kv * group ? term : sum + term;
        if (d->compute != TRINE_F32) bound += unit_in(d->compute, (double)term) / 2;
    }
    if (d->kind == DEVICE_CPU && !on_a_gpu(d) && d->compute == TRINE_F32) bound = 0.0;
    if (!(fabs(got - (double)sum) <= bound))
        fail_msg("%s, %s, H %zu, K %zu, D %zu: row %zu of head %zu: element %zu is %.9g, not %.9g",
                 d->name, type_text(d->compute), g->H, g->K, g->D, row, head, i, got, (double)sum);
}

static void check_grouped(device *d, grouped *g) {
    grouped r = repeated(g);
    run_grouped(d, g);
    run_grouped(d, &r);
    assert_memory_equal(g->y, r.y, g->B * g->T * g->H * g->D * sizeof(float));
    assert_memory_equal(g->lse, r.lse, g->B * g->H * g->T * sizeof(float));
    for (size_t row = 0; row < g->B * g->T; row++) {
        assert_memory_equal(grouped_head(g, g->dqkv, row, 0), grouped_head(&r, r.dqkv, row, 0),
                            g->H * g->D * sizeof(float));
        for (size_t head = g->H; head < g->H + 2 * g->K; head++)
            for (size_t i = 0; i < g->D; i++) check_sum(d, g, &r, row, head, i);
    }
    grouped_free(&r);
}

/* y, lse and dq have the same bits, on a GPU, too: a query head does the same work. */
static void a_head_read_by_many_counts_as_its_copies(void **state) {
    (void)state;
    static const size_t sizes[][5] = {{2, 7, 2, 1, 5},
                                      {1, 66, 4, 1, 64},
                                      {2, 33, 6, 2, 33},
                                      {1, 65, 2, 1, 128},
                                      {1, 20, 2, 1, 130}};
    for (int i = 0; i < EACH_FLOATS * TYPES; i++) {
        device *d = each_open_floats(i / TYPES, all_types[i % TYPES]);
        if (!d) continue;
        for (size_t k = 0; k < 2 * sizeof sizes / sizeof *sizes; k++) {
            const size_t *n = sizes[k / 2];
            grouped g = grouped_of(n[0], n[1], n[2], n[3], n[4], k % 2 ? &dropped : NULL);
            check_grouped(d, &g);
            grouped_free(&g);
        }
        staged_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_read_by_many_counts_as_its_copies),
    };
    return HARNESS_RUN_ALONE(tests);
}
