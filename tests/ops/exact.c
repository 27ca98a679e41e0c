/* TEST np=0 device */
/* Operators whose bits no layout may change, on every device: sums of addends by a tree, exact sums of squares. */
#include "ops/staged.h"

#include <float.h>

/* ---- The tree ---- */

/* The sum of `parts` addends in the words of a stack: push them in order; while the two topmost subtrees are of
 * equal size, they are added; at the end from the top down. */
static float stacked(const float *x, size_t parts, size_t stride) {
    float sums[32];
    size_t sizes[32], top = 0;
    for (size_t p = 0; p < parts; p++) {
        sums[top] = x[p * stride], sizes[top++] = 1;
        for (; top > 1 && sizes[top - 1] == sizes[top - 2]; top--)
            sums[top - 2] += sums[top - 1], sizes[top - 2] *= 2;
    }
    for (; top > 1; top--) sums[top - 2] += sums[top - 1];
    return sums[0];
}

static void the_tree_is_cut_at_the_largest_power_of_two(void **state) {
    (void)state;
    enum { N = 1037, STRIDE = 1088, MOST = 70 };
    float *x = fixture_random(MOST * STRIDE, 11, 1.0), *y = fixture_bytes(N * sizeof *y);
    EACH_DEVICE(d) {
        for (size_t parts = 1; parts <= MOST; parts += parts < 20 ? 1 : 10) {
            size_t others = 0;
            OK(d->ops->sum_parts(d, y, true, x, true, parts, STRIDE, N));
            for (size_t i = 0; i < N; i++) {
                float in_order = x[i], want = stacked(x + i, parts, STRIDE);
                for (size_t p = 1; p < parts; p++) in_order += x[i + p * STRIDE];
                others += in_order != want;
                assert_memory_equal(&y[i], &want, sizeof want);
            }
            assert_true(parts < 4 || others > N / 8); /* the order shows */
        }
        const float *a = x, *b = x + STRIDE, *c = b + STRIDE, *e = c + STRIDE, *f = e + STRIDE;
        OK(d->ops->sum_parts(d, y, true, x, true, 5, STRIDE, N));
        for (size_t i = 0; i < N; i++) assert_true(y[i] == ((a[i] + b[i]) + (c[i] + e[i])) + f[i]);
    }
    free(x), free(y);
}

/* The levels of a tree are registers on a GPU. */
static void more_addends_than_a_gpu_has_room_for_are_refused(void **state) {
    (void)state;
    float x[256] = {0}, y[1];
    EACH_DEVICE(d) {
        OK(d->ops->sum_parts(d, y, true, x, true, 255, 1, 1));
        if (is_staged(d))
            REFUSED(d->ops->sum_parts(d, y, true, x, true, 256, 1, 1), TRINE_EUNSUPPORTED,
                    "sum_parts: 256 parts; at most 255 are allowed");
    }
}

/* ---- Sums of squares ---- */

enum { N = 40 * EXACT_BLOCK + 23 };

/* Of all sizes, the smallest and the largest among them. */
static float *numbers_of_all_sizes(void) {
    float *x = fixture_random(N, 12, 1.0);
    for (int i = 0; i < N; i++) x[i] = ldexpf(x[i], i * 37 % 120 - 60);
    for (int i = 5 * EXACT_BLOCK; i < 6 * EXACT_BLOCK; i++) x[i] = i % 3 ? 0.0f : FLT_TRUE_MIN;
    for (int i = 9 * EXACT_BLOCK; i < 10 * EXACT_BLOCK; i++) x[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    return x;
}

/* The documented order of additions, for each part. */
static void reference(int64_t digits[SQUARES_DIGITS], const float *x, const ops_part *parts,
                      int count) {
    memset(digits, 0, SQUARES_DIGITS * sizeof *digits);
    for (int p = 0; p < count; p++)
        for (size_t block = 0; block <= N / EXACT_BLOCK; block++) {
            double l[EXACT_LANES] = {0};
            for (size_t i = block * EXACT_BLOCK; i < (block + 1) * EXACT_BLOCK; i++)
                if (i >= parts[p].at && i < parts[p].at + parts[p].n)
                    l[i % EXACT_LANES] += (double)x[i] * (double)x[i];
            exact_add(digits, ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7])));
        }
    exact_carry(digits);
}

/* Parts that start anywhere, touch, are empty, lie inside of a block; more than OPS_PARTS of them. */
static int parts_of_all_kinds(ops_part parts[]) {
    const size_t ends[] = {0,   1,   1,   63,  64,  70,  70,  90,  127, 128, 200, 256, 320,     321,
                           321, 384, 448, 500, 577, 600, 601, 640, 704, 705, 711, 720, 731,     768,
                           769, 800, 832, 833, 850, 896, 897, 900, 960, 970, 990, 999, N - 500, N};
    int count = 0;
    for (size_t i = 0; i + 1 < sizeof ends / sizeof *ends; i++)
        if (i % 7 != 5) parts[count++] = (ops_part){.at = ends[i], .n = ends[i + 1] - ends[i]};
    assert_true(count > OPS_PARTS);
    return count;
}

static void squares_have_the_same_digits_on_every_device(void **state) {
    (void)state;
    ops_part parts[64];
    float *x = numbers_of_all_sizes();
    int64_t want[SQUARES_DIGITS], got[SQUARES_DIGITS];
    int count = parts_of_all_kinds(parts);
    reference(want, x, parts, count);
    EACH_DEVICE(d) {
        memset(got, 0, sizeof got);
        OK(d->ops->sum_squares_exact(d, got, x, parts, count));
        assert_memory_equal(got, want, sizeof got);
        /* += */
        OK(d->ops->sum_squares_exact(d, got, x, parts, count));
        for (int i = 0; i < EXACT_DIGITS; i++) got[i] -= 2 * want[i];
        assert_true(exact_value(got) == 0.0);
        OK(d->ops->sum_squares_exact(d, got, x, parts, 0));
        assert_true(exact_value(got) == 0.0);
    }
    free(x);
}

/* Slices from a multiple of EXACT_BLOCK on, in any order: each with its elements of the parts. */
static void add_slice(device *d, int64_t *digits, const float *x, const ops_part *parts, int count,
                      size_t begin, size_t end) {
    ops_part own[64];
    int n = 0;
    for (int p = 0; p < count; p++) {
        size_t from = parts[p].at > begin ? parts[p].at : begin, to = parts[p].at + parts[p].n;
        if (to > end) to = end;
        if (from < to) own[n++] = (ops_part){.at = from - begin, .n = to - from};
    }
    OK(d->ops->sum_squares_exact(d, digits, x + begin, own, n));
}

static void no_division_into_slices_changes_a_digit(void **state) {
    (void)state;
    ops_part parts[64];
    float *x = numbers_of_all_sizes();
    int64_t want[SQUARES_DIGITS], got[SQUARES_DIGITS];
    int count = parts_of_all_kinds(parts);
    reference(want, x, parts, count);
    for (int threads = 1; threads <= 3; threads++) {
        device *d;
        OK(device_open(&d, DEVICE_CPU, threads));
        for (size_t slice = EXACT_BLOCK; slice < 2 * N; slice += 3 * EXACT_BLOCK) {
            memset(got, 0, sizeof got);
            for (size_t begin = N / slice * slice;; begin -= slice) {
                add_slice(d, got, x, parts, count, begin, begin + slice < N ? begin + slice : N);
                if (begin == 0) break;
            }
            assert_memory_equal(got, want, sizeof got);
        }
        device_close(&d);
    }
    free(x);
}

/* Integers: their squares, and the sums of these, are exact in any order. */
static void the_sum_is_that_of_integers(void **state) {
    (void)state;
    float x[N];
    uint64_t sum = 0;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i * 7919 % 100003 - 50000);
        sum += (uint64_t)((int64_t)x[i] * (int64_t)x[i]);
    }
    EACH_DEVICE(d) {
        const ops_part all = {.n = N};
        int64_t digits[SQUARES_DIGITS] = {0};
        OK(d->ops->sum_squares_exact(d, digits, x, &all, 1));
        assert_true(exact_value(digits) == (double)sum);
    }
}

/* One addend that is far below the others' last place is in the sum, and rounds it up. */
static void no_addend_is_too_small(void **state) {
    (void)state;
    float x[3 * EXACT_BLOCK] = {0};
    /* 2^120 + 2^67 is the midpoint of two doubles: rounded to the even one, 2^120, unless there is more. */
    x[0] = 0x1p60f, x[EXACT_BLOCK] = 0x1p33f, x[EXACT_BLOCK + 1] = 0x1p33f;
    EACH_DEVICE(d) {
        const ops_part all = {.n = 3 * EXACT_BLOCK};
        int64_t digits[SQUARES_DIGITS] = {0};
        x[2 * EXACT_BLOCK] = 0.0f;
        OK(d->ops->sum_squares_exact(d, digits, x, &all, 1));
        assert_true(exact_value(digits) == 0x1p120);
        memset(digits, 0, sizeof digits);
        x[2 * EXACT_BLOCK] = FLT_TRUE_MIN;
        OK(d->ops->sum_squares_exact(d, digits, x, &all, 1));
        assert_true(exact_value(digits) == 0x1.0000000000001p120);
    }
}

/* A block counts once, and NaN before infinity. */
static void what_is_not_finite_is_counted(void **state) {
    (void)state;
    EACH_DEVICE(d) {
        float x[9 * EXACT_BLOCK] = {1.0f};
        const ops_part all = {.n = 9 * EXACT_BLOCK};
        int64_t digits[SQUARES_DIGITS] = {0};
        x[3 * EXACT_BLOCK] = INFINITY, x[3 * EXACT_BLOCK + 9] = -INFINITY,
              x[9 * EXACT_BLOCK - 1] = INFINITY;
        OK(d->ops->sum_squares_exact(d, digits, x, &all, 1));
        assert_true(digits[EXACT_INFINITIES] == 2 && digits[EXACT_NANS] == 0);
        assert_true(isinf(exact_value(digits)) && exact_value(digits) > 0.0);
        x[EXACT_BLOCK + 63] = -NAN, x[3 * EXACT_BLOCK + 1] = NAN;
        OK(d->ops->sum_squares_exact(d, digits, x, &all, 1));
        assert_true(digits[EXACT_INFINITIES] == 3 && digits[EXACT_NANS] == 2);
        assert_true(isnan(exact_value(digits)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_is_cut_at_the_largest_power_of_two),
        cmocka_unit_test(more_addends_than_a_gpu_has_room_for_are_refused),
        cmocka_unit_test(squares_have_the_same_digits_on_every_device),
        cmocka_unit_test(no_division_into_slices_changes_a_digit),
        cmocka_unit_test(the_sum_is_that_of_integers),
        cmocka_unit_test(no_addend_is_too_small),
        cmocka_unit_test(what_is_not_finite_is_counted),
    };
    return HARNESS_RUN_ALONE(tests);
}
