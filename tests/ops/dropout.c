/* TEST np=0 device */
/* Dropout masks on every device: the random numbers specified in op_args.h, the share of dropped elements, and that
 * masks do not depend on the split of micro-batches, rows or heads. */
#include "base/rng.h"
#include "ops/staged.h"

enum { T = 6, SAMPLES = 5, ROWS = SAMPLES * T, N = 77 };

static dropout_args drop_of(float p, uint64_t sample, size_t first) {
    return (dropout_args){
        .p = p, .key = rng_key(3, "h.0.mlp.dropout"), .sample = sample, .first = first, .T = T};
}

/* The specification of op_args.h, as directly as possible. */
static float factor_of(const dropout_args *drop, uint64_t sample, uint64_t element) {
    uint64_t block = element / 4;
    uint32_t words[4];
    rng_philox4x32(words,
                   (uint32_t[4]){(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)sample,
                                 (uint32_t)(sample >> 32)},
                   (uint32_t[2]){(uint32_t)drop->key, (uint32_t)(drop->key >> 32)});
    double p = (double)drop->p;
    return (double)words[element % 4] < floor(p * 0x1p32) ? 0.0f : (float)(1.0 / (1.0 - p));
}

/* y (rows, N) of ones. */
static void mask_of(device *d, float *y, const dropout_args *drop, size_t rows, size_t width) {
    float *ones = fixture_random(rows * width, 0, 0.0);
    for (size_t i = 0; i < rows * width; i++) ones[i] = 1.0f;
    OK(d->ops->dropout(d, y, ones, drop, rows, width));
    free(ones);
}

static void each_element_has_the_word_of_its_place(void **state) {
    (void)state;
    const uint64_t samples[] = {0, UINT64_C(0xFFFFFFFE), UINT64_C(1) << 40}; /* one crosses 2^32 */
    const size_t firsts[] = {0, 1, T - 1, 3 * T + 2}, widths[] = {1, 3, 64, N, 1030};
    float *y = fixture_random(ROWS * 1030, 0, 0.0);
    EACH_DEVICE(d)
    for (size_t i = 0; i < 3 * 4 * 5; i++) {
        const dropout_args drop = drop_of(0.4f, samples[i % 3], firsts[i / 3 % 4]);
        size_t width = widths[i / 12];
        mask_of(d, y, &drop, ROWS, width);
        for (size_t j = 0; j < ROWS * width; j++) {
            size_t row = drop.first + j / width;
            assert_true(y[j] ==
                        factor_of(&drop, drop.sample + row / T, row % T * width + j % width));
        }
    }
    free(y);
}

/* The share of n draws with probability p has the standard deviation sqrt(p (1 - p) / n); five
 * deviations are exceeded once in two million runs, and the test is deterministic. */
static void p_of_them_go(void **state) {
    (void)state;
    enum { WIDTH = 4096, COUNT = ROWS * WIDTH };
    const float ps[] = {0.001f, 0.1f, 0.5f, 0.9f};
    float *y = fixture_random(COUNT, 0, 0.0);
    EACH_DEVICE(d)
    for (size_t i = 0; i < 4; i++) {
        const dropout_args drop = drop_of(ps[i], 11, 0);
        double p = (double)ps[i], gone = 0.0, sum = 0.0;
        mask_of(d, y, &drop, ROWS, WIDTH);
        for (size_t j = 0; j < COUNT; j++) {
            assert_true(y[j] == 0.0f || y[j] == (float)(1.0 / (1.0 - p)));
            gone += y[j] == 0.0f, sum += (double)y[j];
        }
        double deviation = sqrt(p * (1.0 - p) / COUNT);
        if (fabs(gone / COUNT - p) > 5 * deviation)
            fail_msg("%s: %g of the elements are dropped, not %g", d->name, gone / COUNT, p);
        /* Kept elements are scaled up, so that the mean does not change. */
        assert_true(fabs(sum / COUNT - 1.0) <= 5 * deviation / (1.0 - p));
    }
    free(y);
}

static void no_cut_changes_the_mask(void **state) {
    (void)state;
    const dropout_args drop = drop_of(0.3f, 20, 0);
    float *full = fixture_random(ROWS * N, 0, 0.0), *cut = fixture_random(ROWS * N, 0, 0.0);
    EACH_DEVICE(d) {
        mask_of(d, full, &drop, ROWS, N);
        for (size_t row = 0, rows; row < ROWS; row += rows) { /* rows of 1, 2, 3, ... */
            rows = row / 3 + 1 < ROWS - row ? row / 3 + 1 : ROWS - row;
            const dropout_args part = drop_of(0.3f, 20, row);
            mask_of(d, cut + row * N, &part, rows, N);
        }
        assert_memory_equal(full, cut, ROWS * N * sizeof *cut);
        for (size_t b = 0; b < SAMPLES; b++) { /* each sample a micro-batch */
            const dropout_args part = drop_of(0.3f, 20 + b, 0);
            mask_of(d, cut + b * T * N, &part, T, N);
        }
        assert_memory_equal(full, cut, ROWS * N * sizeof *cut);
    }
    free(full), free(cut);
}

/* Two independent masks agree in p^2 + (1 - p)^2 of their elements. */
static void check_unlike(const device *d, const float *a, const float *b, size_t n,
                         const char *what) {
    const double p = 0.3, want = p * p + (1 - p) * (1 - p);
    double same = 0.0;
    for (size_t i = 0; i < n; i++) same += (a[i] == 0.0f) == (b[i] == 0.0f);
    if (fabs(same / (double)n - want) > 5 * sqrt(want * (1.0 - want) / (double)n))
        fail_msg("%s: masks of two %s agree in %g of their elements, not %g", d->name, what,
                 same / (double)n, want);
}

static void other_samples_rows_and_names_have_other_masks(void **state) {
    (void)state;
    enum { WIDTH = 2000 };
    float *y = fixture_random(2 * T * WIDTH, 0, 0.0), *z = fixture_random(2 * T * WIDTH, 0, 0.0);
    EACH_DEVICE(d) {
        dropout_args drop = drop_of(0.3f, 7, 0);
        mask_of(d, y, &drop, (size_t)2 * T, WIDTH);
        check_unlike(d, y, y + T * WIDTH, (size_t)T * WIDTH, "samples");
        check_unlike(d, y, y + WIDTH, WIDTH, "rows");
        drop.key = rng_key(3, "h.1.mlp.dropout");
        mask_of(d, z, &drop, T, WIDTH);
        check_unlike(d, y, z, (size_t)T * WIDTH, "names");
    }
    free(y), free(z);
}

/* ---- Attention: the probabilities' mask, seen through values that are 1 for one key ---- */

enum { B = 2, LENGTH = 9, H = 4, D = LENGTH, ROW = 3 * H * D };

static void attend(device *d, float *y, const float *qkv, const dropout_args *drop, size_t heads) {
    float lse[B * H * LENGTH];
    void *work = fixture_bytes(d->ops->attention_workspace(d, B, LENGTH, heads, heads, D));
    OK(d->ops->attention_forward(d, y, lse, qkv, NULL, work, drop, B, LENGTH, heads, heads, D));
    free(work);
}

/* With q = 0 all keys have the same weight; with a unit matrix v, row t of y is its probabilities. */
static void probabilities_are_dropped_where_ops_h_says(void **state) {
    (void)state;
    float *qkv = fixture_random(B * LENGTH * ROW, 0, 0.0), y[B * LENGTH * H * D];
    for (size_t i = 0; i < (size_t)B * LENGTH; i++)
        for (size_t h = 0; h < H; h++) qkv[i * ROW + 2 * H * D + h * D + i % LENGTH] = 1.0f;
    const dropout_args drop = drop_of(0.4f, 9, 6); /* six preceding heads */
    EACH_DEVICE(d) {
        attend(d, y, qkv, &drop, H);
        for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
            size_t b = i / D / H / LENGTH, t = i / D / H % LENGTH, h = i / D % H, k = i % D;
            uint64_t element = ((drop.first + h) * LENGTH + t) * LENGTH + k;
            float f = k <= t ? factor_of(&drop, drop.sample + b, element) : 0.0f;
            double want = (double)f / (double)(t + 1);
            assert_true(fabs((double)y[i] - want) <= 4 * EPS * want);
        }
    }
    free(qkv);
}

/* A tp rank with half of the heads computes the same bits. */
static void no_cut_of_heads_changes_a_bit(void **state) {
    (void)state;
    float *qkv = fixture_random(B * LENGTH * ROW, 1, 2.0),
          *part = fixture_copy(qkv, B * LENGTH * ROW);
    float full[B * LENGTH][H][D], half[B * LENGTH][H / 2][D];
    EACH_DEVICE(d) {
        const dropout_args all = drop_of(0.4f, 9, 0);
        attend(d, (float *)full, qkv, &all, H);
        for (size_t first = 0; first < H; first += H / 2) {
            for (size_t i = 0; i < (size_t)B * LENGTH * 3; i++)
                memcpy(part + i * (H / 2) * D, qkv + i * H * D + first * D,
                       H / 2 * D * sizeof *part);
            const dropout_args own = drop_of(0.4f, 9, first);
            attend(d, (float *)half, part, &own, H / 2);
            for (size_t i = 0; i < (size_t)B * LENGTH; i++)
                assert_memory_equal(half[i], full[i][first], sizeof half[i]);
        }
    }
    free(qkv), free(part);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_has_the_word_of_its_place),
        cmocka_unit_test(p_of_them_go),
        cmocka_unit_test(no_cut_changes_the_mask),
        cmocka_unit_test(other_samples_rows_and_names_have_other_masks),
        cmocka_unit_test(probabilities_are_dropped_where_ops_h_says),
        cmocka_unit_test(no_cut_of_heads_changes_a_bit),
    };
    return HARNESS_RUN_ALONE(tests);
}
