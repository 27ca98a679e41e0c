/* TEST np=0 device */
/* Documents that share a sample, on every available device and in every type: attention, positions and the loss of
 * each are those of the document alone. */
#include "ops/compare.h"

/* ---- Samples of documents ---- */

/* Sizes and operands of a call of attention, and where the documents begin. */
typedef struct {
    size_t B, T, H, K, D;
    const dropout_args *drop;
    int32_t *starts;
    float *qkv, *dy, *y, *lse, *dqkv;
} packed;

/* Documents of one row, of less and more than a tile of any device, and some that cross its edges. */
static int32_t *starts_of(size_t B, size_t T) {
    static const size_t lengths[] = {6, 1, 31, 2, 40, 65, 3, 19, 1, 1, 32, 8, 70, 150};
    int32_t *starts = fixture_bytes(B * T * sizeof *starts);
    size_t n = 0;
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0, start = 0; t < T; t++) {
            if (t - start == lengths[n % (sizeof lengths / sizeof *lengths)]) start = t, n++;
            starts[b * T + t] = (int32_t)start;
        }
    return starts;
}

static packed packed_of(const size_t n[5], const dropout_args *drop) {
    const size_t rows = n[0] * n[1], wide = (n[2] + 2 * n[3]) * n[4], out = n[2] * n[4];
    return (packed){n[0],
                    n[1],
                    n[2],
                    n[3],
                    n[4],
                    drop,
                    starts_of(n[0], n[1]),
                    fixture_random(rows * wide, 1, 2.0),
                    fixture_random(rows * out, 2, 2.0),
                    fixture_random(rows * out, 3, 1.0),
                    fixture_random(rows * n[2], 4, 1.0),
                    fixture_random(rows * wide, 5, 1.0)};
}

static void packed_free(packed *p) {
    free(p->starts), free(p->qkv), free(p->dy), free(p->y), free(p->lse), free(p->dqkv);
}

static size_t wide_of(const packed *p) {
    return (p->H + 2 * p->K) * p->D;
}

/* The rows of the document that begins at row `row` of all B T. */
static size_t length_at(const packed *p, size_t row) {
    size_t n = 1;
    while ((row + n) % p->T > 0 && p->starts[row + n] == p->starts[row]) n++;
    return n;
}

#define EACH_DOCUMENT(p, row, n)                                                                   \
    for (size_t row = 0, n; row < (p)->B * (p)->T && (n = length_at(p, row)); row += n)

static void *workspace(device *d, const packed *p) {
    size_t bytes = d->ops->attention_workspace(d, p->B, p->T, p->H, p->K, p->D);
    void *work = fixture_bytes(bytes);
    memset(work, 0xff, bytes); /* NaNs */
    return work;
}

/* Sets y and lse. */
static void forward(device *d, packed *p, const int32_t *starts) {
    void *work = workspace(d, p);
    OK(d->ops->attention_forward(d, p->y, p->lse, p->qkv, starts, work, p->drop, p->B, p->T, p->H,
                                 p->K, p->D));
    free(work);
}

/* Sets dqkv from y and lse. */
static void backward(device *d, packed *p, const int32_t *starts) {
    void *work = workspace(d, p);
    OK(d->ops->attention_backward(d, p->dqkv, p->dy, p->qkv, p->y, p->lse, starts, work, p->drop,
                                  p->B, p->T, p->H, p->K, p->D));
    free(work);
}

/* The same, document by document. */
static void alone(device *d, packed *p) {
    const size_t out = p->H * p->D, wide = wide_of(p);
    float *lse = fixture_bytes(p->H * p->T * sizeof *lse);
    void *work = workspace(d, p);
    EACH_DOCUMENT(p, row, n) {
        OK(d->ops->attention_forward(d, p->y + row * out, lse, p->qkv + row * wide, NULL, work,
                                     NULL, 1, n, p->H, p->K, p->D));
        OK(d->ops->attention_backward(d, p->dqkv + row * wide, p->dy + row * out,
                                      p->qkv + row * wide, p->y + row * out, lse, NULL, work, NULL,
                                      1, n, p->H, p->K, p->D));
        for (size_t h = 0; h < p->H; h++)
            memcpy(p->lse + (row / p->T * p->H + h) * p->T + row % p->T, lse + h * n,
                   n * sizeof *lse);
    }
    free(lse), free(work);
}

/* ---- Devices ---- */

static const trine_dtype all_types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};

#define TYPES (int)(sizeof all_types / sizeof *all_types)

static bool is_cpu(const device *d) {
    return !on_a_gpu(d) && d->kind == DEVICE_CPU;
}

static bool is_ref(const device *d) {
    return !on_a_gpu(d) && d->kind == DEVICE_REF;
}

static void on_all(void (*check)(device *d)) {
    for (int i = 0; i < EACH_FLOATS * TYPES; i++) {
        device *d = each_open_floats(i / TYPES, all_types[i % TYPES]);
        if (!d) continue;
        check(d);
        each_close(&d);
    }
}

/* B, T, H, K, D: heads of the cuda device's kernels and of none, groups, incomplete tiles. */
static const size_t sizes[][5] = {{2, 37, 2, 1, 6},    {1, 1, 1, 1, 4},    {1, 150, 2, 1, 64},
                                  {2, 230, 1, 1, 16},  {1, 131, 1, 1, 33}, {1, 100, 1, 1, 96},
                                  {1, 140, 1, 1, 128}, {1, 67, 2, 1, 130}, {3, 9, 1, 1, 5}};

#define SIZES_COUNT (sizeof sizes / sizeof *sizes)

static const dropout_args dropped = {.p = 0.2f, .key = 11, .sample = 100, .first = 3};

/* ---- Attention ---- */

/* The bounds of compare.h; `way` as there. In a short document probabilities are near one, and with a dropout of 0.2 up
 * to 1.25, where half a unit is twice that of numbers below one. */
static void near(const device *d, const packed *p, const char *what, const float *got,
                 const float *want, size_t n, double way) {
    const double root = sqrt((double)(p->T * (p->H / p->K)));
    char text[160];
    type_bound b = bound_of(d->compute);
    if (attention_rounds(d, &(dims){{p->B, p->T, p->H, p->D}})) b.way = p->drop ? 2.0 * way : way;
    snprintf(text, sizeof text, "%s, %s: %s of (%zu, %zu, %zu, %zu, %zu)", d->name,
             type_text(d->compute), what, p->B, p->T, p->H, p->K, p->D);
    near_typed(text, d->compute, got, want, n, EPS * (8.0 + root), 1.0 + root / 3.0, b);
}

static void near_all(const device *d, const packed *got, const packed *want) {
    const size_t rows = got->B * got->T;
    near(d, got, "y", got->y, want->y, rows * got->H * got->D, 1.0);
    near(d, got, "lse", got->lse, want->lse, rows * got->H, 1.0);
    near(d, got, "dqkv", got->dqkv, want->dqkv, rows * wide_of(got),
         4.0 * (double)(got->H / got->K));
}

/* y, lse, and of each row of dqkv the first `heads` heads. */
static void same(const packed *a, const packed *b, size_t heads) {
    const size_t rows = a->B * a->T, wide = wide_of(a);
    assert_memory_equal(a->y, b->y, rows * a->H * a->D * sizeof *a->y);
    assert_memory_equal(a->lse, b->lse, rows * a->H * sizeof *a->lse);
    for (size_t row = 0; row < rows; row++)
        assert_memory_equal(a->dqkv + row * wide, b->dqkv + row * wide,
                            heads * a->D * sizeof *a->dqkv);
}

/* On ref and cpu bit for bit, but where bf16 numbers are added in pairs: two rows of a tile are a pair, and a document
 * may begin with the second one. */
static void check_alone(device *d) {
    device *ref = ref_of(d);
    for (size_t i = 0; i < SIZES_COUNT; i++) {
        packed want = packed_of(sizes[i], NULL), got = packed_of(sizes[i], NULL);
        const bool pairs = attention_rounds(d, &(dims){{1, 1, 1, got.D}});
        const size_t heads = pairs ? got.H : got.H + 2 * got.K;
        forward(d, &got, got.starts), backward(d, &got, got.starts);
        alone(d, &want);
        if (is_ref(d) || is_cpu(d)) same(&got, &want, heads);
        alone(ref, &want);
        memcpy(got.y, want.y, got.B * got.T * got.H * got.D * sizeof *got.y);
        memcpy(got.lse, want.lse, got.B * got.T * got.H * sizeof *got.lse);
        backward(d, &got, got.starts);
        forward(d, &got, got.starts);
        near_all(d, &got, &want);
        packed_free(&got), packed_free(&want);
    }
    each_close(&ref);
}

static void a_document_is_as_if_alone(void **state) {
    (void)state;
    on_all(check_alone);
}

/* Whose elements are numbered in the sample. */
static void check_dropout(device *d) {
    device *ref = ref_of(d);
    for (size_t i = 0; i < SIZES_COUNT; i++) {
        packed want = packed_of(sizes[i], &dropped), got = packed_of(sizes[i], &dropped);
        forward(ref, &want, want.starts), backward(ref, &want, want.starts);
        forward(ref, &got, got.starts), backward(d, &got, got.starts);
        forward(d, &got, got.starts);
        near_all(d, &got, &want);
        packed_free(&got), packed_free(&want);
    }
    each_close(&ref);
}

static void dropout_of_documents_is_that_of_ref(void **state) {
    (void)state;
    on_all(check_dropout);
}

static void check_zeros(device *d) {
    for (size_t i = 0; i < 2 * SIZES_COUNT; i++) {
        const dropout_args *drop = i % 2 ? &dropped : NULL;
        packed one = packed_of(sizes[i / 2], drop), none = packed_of(sizes[i / 2], drop);
        memset(one.starts, 0, one.B * one.T * sizeof *one.starts);
        forward(d, &one, one.starts), backward(d, &one, one.starts);
        forward(d, &none, NULL), backward(d, &none, NULL);
        same(&one, &none, one.H + 2 * one.K);
        packed_free(&one), packed_free(&none);
    }
}

static void one_document_has_the_bits_of_none(void **state) {
    (void)state;
    on_all(check_zeros);
}

/* Replaces the results of rows [first, first + n), a document, by zeros. */
static void forget(const packed *p, size_t first, size_t n) {
    const size_t out = p->H * p->D, wide = wide_of(p);
    memset(p->y + first * out, 0, n * out * sizeof *p->y);
    memset(p->dqkv + first * wide, 0, n * wide * sizeof *p->dqkv);
    for (size_t h = 0; h < p->H; h++)
        memset(p->lse + (first / p->T * p->H + h) * p->T + first % p->T, 0, n * sizeof *p->lse);
}

/* Every second document is full of NaNs; the others have the bits that they have without. A GPU multiplies a tile with
 * a NaN by plain loops, which add in another order than tensor cores. */
static void check_crossing(device *d) {
    for (size_t i = 0; i < SIZES_COUNT; i++) {
        packed clean = packed_of(sizes[i], NULL), got = packed_of(sizes[i], NULL);
        size_t number = 0;
        EACH_DOCUMENT(&got, row, n) {
            if (number++ % 2 == 0) continue;
            memset(got.qkv + row * wide_of(&got), 0xff, n * wide_of(&got) * sizeof *got.qkv);
            memset(got.dy + row * got.H * got.D, 0xff, n * got.H * got.D * sizeof *got.dy);
        }
        forward(d, &clean, clean.starts), backward(d, &clean, clean.starts);
        forward(d, &got, got.starts), backward(d, &got, got.starts);
        number = 0;
        EACH_DOCUMENT(&got, row, n) {
            if (number++ % 2) {
                assert_true(isnan(got.y[row * got.H * got.D]));
                forget(&got, row, n), forget(&clean, row, n);
            }
        }
        if (on_a_gpu(d))
            near_all(d, &got, &clean);
        else
            same(&got, &clean, got.H + 2 * got.K);
        packed_free(&got), packed_free(&clean);
    }
}

static void nothing_crosses_a_boundary(void **state) {
    (void)state;
    on_all(check_crossing);
}

/* ---- Positions ---- */

enum { PB = 2, PT = 153, ROWS_ALL = PB * PT, PH = 3, PD = 6, WIDE = PH * PD, CUT = 71 };

/* Rows [CUT, ROWS_ALL) of x (ROWS_ALL, WIDE) are processed as another rank's. */
static void check_rope(device *d, const packed *p, const float *table, bool inverse) {
    float *x = fixture_random(ROWS_ALL * WIDE, 6, 1.0), *want = fixture_copy(x, ROWS_ALL * WIDE);
    OK(d->ops->rope(d, x, table, p->starts, inverse, 0, CUT, PT, PH, 2, PD));
    OK(d->ops->rope(d, x + CUT * WIDE, table, p->starts, inverse, CUT, ROWS_ALL - CUT, PT, PH, 2,
                    PD));
    EACH_DOCUMENT(p, row, n)
    OK(d->ops->rope(d, want + row * WIDE, table, NULL, inverse, 0, n, PT, PH, 2, PD));
    assert_memory_equal(x, want, ROWS_ALL * WIDE * sizeof *x);
    free(x), free(want);
}

static void check_learned(device *d, const packed *p, const float *table) {
    float *x = fixture_random(ROWS_ALL * WIDE, 7, 1.0), *want = fixture_copy(x, ROWS_ALL * WIDE);
    float *sum = fixture_random(PT * WIDE, 8, 1.0), *each = fixture_copy(sum, PT * WIDE);
    float *whole = fixture_copy(x, ROWS_ALL * WIDE);
    OK(d->ops->position_forward(d, x, table, p->starts, 0, CUT, PT, WIDE));
    OK(d->ops->position_forward(d, x + CUT * WIDE, table, p->starts, CUT, ROWS_ALL - CUT, PT,
                                WIDE));
    OK(d->ops->position_backward(d, sum, x, p->starts, 0, CUT, PT, WIDE, GRAD_ADD));
    OK(d->ops->position_backward(d, sum, x + CUT * WIDE, p->starts, CUT, ROWS_ALL - CUT, PT, WIDE,
                                 GRAD_ADD));
    EACH_DOCUMENT(p, row, n) {
        OK(d->ops->position_forward(d, want + row * WIDE, table, NULL, 0, n, PT, WIDE));
        OK(d->ops->position_backward(d, each, want + row * WIDE, NULL, 0, n, PT, WIDE, GRAD_ADD));
    }
    assert_memory_equal(x, want, ROWS_ALL * WIDE * sizeof *x);
    assert_memory_equal(sum, each, PT * WIDE * sizeof *sum);
    OK(d->ops->position_forward(d, whole, table, p->starts, 0, ROWS_ALL, PT, WIDE));
    assert_memory_equal(whole, want, ROWS_ALL * WIDE * sizeof *whole);
    OK(d->ops->position_backward(d, each, x, p->starts, 0, ROWS_ALL, PT, WIDE, GRAD_SET));
    memset(sum, 0, PT * WIDE * sizeof *sum);
    OK(d->ops->position_backward(d, sum, x, p->starts, 0, ROWS_ALL, PT, WIDE, GRAD_ADD));
    assert_memory_equal(sum, each, PT * WIDE * sizeof *sum);
    free(x), free(want), free(sum), free(each), free(whole);
}

static void check_positions(device *d) {
    const size_t n[5] = {PB, PT, 1, 1, 1};
    packed p = packed_of(n, NULL);
    float *table = fixture_random(PT * WIDE, 9, 1.0);
    check_rope(d, &p, table, false);
    check_rope(d, &p, table, true);
    check_learned(d, &p, table);
    memset(p.starts, 0, ROWS_ALL * sizeof *p.starts);
    check_rope(d, &p, table, false);
    check_learned(d, &p, table);
    packed_free(&p), free(table);
}

static void positions_start_anew_in_each_document(void **state) {
    (void)state;
    on_all(check_positions);
}

/* ---- Targets ---- */

enum { N = 41, MOST = 600 };

/* Statistics and the gradient of N rows of V logits in `parts` shards of the vocabulary. */
typedef struct {
    float max[N], sums[2 * N], gradient[N * MOST];
    double loss;
} xent;

static void xent_of(device *d, xent *x, const float *logits, const int32_t *targets, size_t n,
                    size_t V, size_t parts) {
    const size_t S = V / parts;
    float own[2 * N], part[2 * N];
    float *shard = fixture_bytes(2 * N * MOST * sizeof *shard);
    memset(x->sums, 0, sizeof x->sums);
    for (size_t s = 0; s < parts; s++) {
        for (size_t t = 0; t < n; t++)
            memcpy(shard + (s * n + t) * S, logits + t * V + s * S, S * sizeof *shard);
        OK(d->ops->xent_forward(d, own + s * n, part, shard + s * n * S, targets, (int32_t)(s * S),
                                n, S, S));
    }
    OK(d->ops->xent_max(d, x->max, own, parts, n));
    for (size_t s = 0; s < parts; s++) {
        OK(d->ops->xent_forward(d, own + s * n, part, shard + s * n * S, targets, (int32_t)(s * S),
                                n, S, S));
        OK(d->ops->xent_rescale(d, part, own + s * n, x->max, n));
        for (size_t i = 0; i < 2 * n; i++) x->sums[i] += part[i];
    }
    x->loss = 1.0;
    OK(d->ops->xent_loss(d, &x->loss, x->max, x->sums, targets, 0.25, n));
    for (size_t s = 0; s < parts; s++) {
        OK(d->ops->xent_backward(d, shard + s * n * S, x->max, x->sums, targets, (int32_t)(s * S),
                                 0.5f, n, S, S));
        for (size_t t = 0; t < n; t++)
            memcpy(x->gradient + t * V + s * S, shard + (s * n + t) * S, S * sizeof *shard);
    }
    free(shard);
}

/* Rows without a target, of NaNs, between others, which have the results that they have by themselves; not `some`: no
 * others. */
static void check_rows(device *d, size_t V, size_t parts, bool some) {
    static xent got, want;
    float *logits = fixture_random(N * V, 10, 6.0), *kept = fixture_bytes(N * V * sizeof *kept);
    int32_t targets[N], kept_targets[N];
    size_t n = 0, at = 0;
    for (size_t t = 0; t < N; t++) {
        targets[t] = some && t % 3 ? (int32_t)((t * 7 + t * t) % V) : OPS_NO_TARGET;
        if (targets[t] == OPS_NO_TARGET) {
            for (size_t v = 0; v < V; v++) logits[t * V + v] = NAN;
            continue;
        }
        memcpy(kept + n * V, logits + t * V, V * sizeof *kept);
        kept_targets[n++] = targets[t];
    }
    xent_of(d, &got, logits, targets, N, V, parts);
    xent_of(d, &want, kept, kept_targets, n, V, parts);
    assert_true(fabs(got.loss - want.loss) <= 1e-12 * fabs(want.loss));
    if (!some) assert_true(got.loss == 1.0);
    for (size_t t = 0; t < N; t++) {
        const float *row = got.gradient + t * V;
        if (targets[t] != OPS_NO_TARGET)
            assert_memory_equal(row, want.gradient + at++ * V, V * sizeof *row);
        else
            for (size_t v = 0; v < V; v++) assert_true(row[v] == 0.0f);
    }
    assert_int_equal(at, n);
    free(logits), free(kept);
}

static void check_targets(device *d) {
    for (size_t parts = 1; parts <= 2; parts++) {
        check_rows(d, 12, parts, true);
        check_rows(d, MOST, parts, true);
        check_rows(d, 12, parts, false);
    }
}

static void a_row_without_a_target_counts_nothing(void **state) {
    (void)state;
    on_all(check_targets);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_as_if_alone),
        cmocka_unit_test(dropout_of_documents_is_that_of_ref),
        cmocka_unit_test(one_document_has_the_bits_of_none),
        cmocka_unit_test(nothing_crosses_a_boundary),
        cmocka_unit_test(positions_start_anew_in_each_document),
        cmocka_unit_test(a_row_without_a_target_counts_nothing),
    };
    return HARNESS_RUN_ALONE(tests);
}
