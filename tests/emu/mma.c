/* TEST np=0 */
/* Emulated tensor cores compared with plain loops: the layout of elements in lanes, and
 * attention in bf16 and fp16. */
#include "deaths.h"

#include <math.h>
#include <stdlib.h>

#include "mma_kernels.h"

static float spread(size_t i) {
    return sinf((float)(i * i % 9973));
}

static void numbers_survive_narrowing(void **state) {
    (void)state;
    const float exact[] = {0.0f, 1.0f, -2.5f, 0.09375f, 65280.0f, INFINITY, -INFINITY};
    for (half_type type = BF16; type <= FP16; type++) {
        for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
            assert_true(half_widen(type, half_narrow(type, exact[i])) == exact[i]);
        assert_true(isnan(half_widen(type, half_narrow(type, NAN))));
        for (uint32_t bits = 0; bits < 0x7c00; bits++)
            assert_int_equal(half_narrow(type, half_widen(type, (uint16_t)bits)), bits);
    }
    assert_int_equal(half_narrow(FP16, 65520.0f), 0x7c00);        /* infinity */
    assert_int_equal(half_narrow(FP16, 0x1p-24f), 1);             /* the smallest number */
    assert_int_equal(half_narrow(FP16, 1.0f + 0x1p-11f), 0x3c00); /* ties to even */
    assert_int_equal(half_narrow(FP16, 1.0f + 0x3p-11f), 0x3c02);
    assert_int_equal(half_narrow(BF16, 1.0f + 0x1p-8f), 0x3f80);
}

/* All elements differ, so that any error in the layout shows. */
static void a_product_has_its_elements_in_place(void **state) {
    (void)state;
    for (half_type type = BF16; type <= FP16; type++) {
        uint16_t a[16][16], b[16][8];
        float d[16][8], got[16][8];
        for (size_t i = 0; i < 256; i++) a[i / 16][i % 16] = half_narrow(type, spread(i + 1));
        for (size_t i = 0; i < 128; i++) b[i / 8][i % 8] = half_narrow(type, spread(i + 500));
        for (size_t i = 0; i < 128; i++) d[i / 8][i % 8] = (float)i;
        cudaStream_t stream = new_stream();
        void *da = new_memory(sizeof a), *db = new_memory(sizeof b), *dd = new_memory(sizeof d);
        put(da, a, sizeof a), put(db, b, sizeof b), put(dd, d, sizeof d);
        launch_mma(stream, dd, da, db, type);
        look(got, dd, sizeof got);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                double sum = (double)d[i][j];
                for (int k = 0; k < 16; k++)
                    sum += (double)half_widen(type, a[i][k]) * (double)half_widen(type, b[k][j]);
                assert_true(fabs((double)got[i][j] - sum) <= 16 * 6e-8 * 130.0);
            }
        cudaFree(da), cudaFree(db), cudaFree(dd);
        cudaStreamDestroy(stream);
    }
}

static void load_rows(wrong_rows which) {
    cudaStream_t stream = new_stream();
    uint16_t rows[32 * 8];
    for (size_t i = 0; i < 32 * 8; i++) rows[i] = (uint16_t)i;
    void *x = new_memory(sizeof rows), *y = new_memory(32 * 4 * sizeof(uint32_t));
    put(x, rows, sizeof rows);
    launch_load_row(stream, y, x, which);
    uint32_t got[32 * 4];
    look(got, y, sizeof got);
    for (uint32_t i = 0; i < 32 * 4;
         i++) { /* lane i / 4, matrix i % 4: row g, columns 2t, 2t + 1 */
        uint32_t first = (i % 4 * 8 + i / 16) * 8 + i / 4 % 4 * 2;
        assert_int_equal(got[i], (first + 1) << 16 | first);
    }
    cudaFree(x), cudaFree(y);
    cudaStreamDestroy(stream);
}

static void misaligned(void) {
    load_rows(MISALIGNED);
}

static void past_the_end(void) {
    load_rows(PAST_THE_END);
}

static void in_global_memory(void) {
    load_rows(IN_GLOBAL_MEMORY);
}

static void rows_lie_in_shared_memory_at_multiples_of_16(void **state) {
    (void)state;
    load_rows(RIGHT);
    DIES(misaligned, "row of mma_load", "not aligned to 16 bytes", "load_a_row",
         "tests/emu/mma_kernels.cu");
    DIES(past_the_end, "row of mma_load", "not shared memory", "thread (31,0,0)");
    DIES(in_global_memory, "row of mma_load", "not shared memory", "load_a_row");
}

/* One query head's row t in double, from the 16-bit values; k and v are those of its position 0. Returns the log of
 * the sum of exponentials. */
static double row_of(double *y, const float *q, const float *k, const float *v, size_t t,
                     size_t stride, size_t D) {
    double max = -INFINITY, sum = 0.0, *p = calloc(t + 1, sizeof *p);
    for (size_t s = 0; s <= t; s++) {
        for (size_t i = 0; i < D; i++)
            p[s] += (double)q[t * stride + i] * (double)k[s * stride + i];
        p[s] /= sqrt((double)D);
        max = p[s] > max ? p[s] : max;
    }
    for (size_t i = 0; i < D; i++) y[i] = 0.0;
    for (size_t s = 0; s <= t; s++) {
        double e = exp(p[s] - max);
        sum += e;
        for (size_t i = 0; i < D; i++) y[i] += e * (double)v[s * stride + i];
    }
    for (size_t i = 0; i < D; i++) y[i] /= sum;
    free(p);
    return max + log(sum);
}

/* p and y are rounded to 16 bits: each is off by up to `half` (half a unit in the last place of 1)
 * of the largest v, which is 1; the products' fp32 sums are off by less than a tenth of that. The
 * statistics never leave fp32. Rows from `from` on. */
static void compare(const uint16_t *y, const float *lse, const float *qkv, size_t B, size_t T,
                    size_t H, size_t K, size_t D, size_t from, half_type type) {
    const size_t stride = (H + 2 * K) * D;
    const double half = type == BF16 ? 0x1p-9 : 0x1p-12;
    double *want = malloc(D * sizeof *want);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t t = from; t < T; t++) {
                const float *q = qkv + b * T * stride, *k = q + (H + h / (H / K)) * D;
                double log_sum = row_of(want, q + h * D, k, k + K * D, t, stride, D);
                if (!(fabs((double)lse[(b * H + h) * T + t] - log_sum) <= 4e-6))
                    fail_msg("lse of row %zu is %.9g, not %.9g", t,
                             (double)lse[(b * H + h) * T + t], log_sum);
                for (size_t i = 0; i < D; i++) {
                    double got = (double)half_widen(type, y[((b * T + t) * H + h) * D + i]);
                    if (!(fabs(got - want[i]) <= 2.2 * half))
                        fail_msg("T %zu, D %zu: y of row %zu, column %zu is %.9g, not %.9g", T, D,
                                 t, i, got, want[i]);
                }
            }
    free(want);
}

/* The first `nothing` keys are -infinity in their first column, where no query is negative. */
static void attention(size_t B, size_t T, size_t H, size_t K, size_t D, size_t nothing,
                      half_type type) {
    const size_t n = B * T * H * D, stride = (H + 2 * K) * D, all = B * T * stride;
    uint16_t *bits = malloc(all * sizeof *bits), *y = malloc(n * sizeof *y);
    float *qkv = malloc(all * sizeof *qkv), *lse = malloc(B * H * T * sizeof *lse);
    for (size_t i = 0; i < all; i++)
        bits[i] = half_narrow(type, spread(i + 1)), qkv[i] = half_widen(type, bits[i]);
    for (size_t t = 0; t < T && nothing; t++) {
        uint16_t *q = bits + t * stride, *k = q + H * D;
        *q = half_narrow(type, 0.5f);
        if (t < nothing) *k = half_narrow(type, -INFINITY);
        qkv[q - bits] = half_widen(type, *q), qkv[k - bits] = half_widen(type, *k);
    }
    cudaStream_t stream = new_stream();
    void *in = new_memory(all * sizeof *bits), *out = new_memory(n * sizeof *y),
         *sums = new_memory(B * H * T * sizeof *lse);
    put(in, bits, all * sizeof *bits);
    launch_attention(stream, out, sums, in, B, T, H, K, D, type);
    look(y, out, n * sizeof *y), look(lse, sums, B * H * T * sizeof *lse);
    compare(y, lse, qkv, B, T, H, K, D, nothing, type);
    cudaFree(in), cudaFree(out), cudaFree(sums);
    cudaStreamDestroy(stream);
    free(bits), free(y), free(qkv), free(lse);
}

static void attention_in_16_bits(void **state) {
    (void)state;
    for (half_type type = BF16; type <= FP16; type++) {
        attention(1, 1, 1, 1, 1, 0, type);
        attention(2, 7, 3, 3, 5, 0, type);
        attention(1, 130, 2, 2, 64, 0, type);
        attention(1, 65, 1, 1, 80, 0, type);
        attention(1, 70, 1, 1, 128, 0, type);
        attention(1, 33, 2, 2, 33, 0, type);
        attention(2, 70, 4, 2, 64, 0, type);
        attention(1, 65, 3, 1, 128, 0, type);
        attention(2, 7, 6, 2, 5, 0, type);
    }
}

/* Two tiles of keys with a score of -infinity, and a part of the third. */
static void attention_that_begins_with_nothing(void **state) {
    (void)state;
    attention(1, 200, 1, 1, 8, 140, BF16);
    attention(1, 200, 1, 1, 8, 140, FP16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_survive_narrowing),
        cmocka_unit_test(a_product_has_its_elements_in_place),
        cmocka_unit_test(rows_lie_in_shared_memory_at_multiples_of_16),
        cmocka_unit_test(attention_in_16_bits),
        cmocka_unit_test(attention_that_begins_with_nothing),
    };
    return HARNESS_RUN_ALONE(tests);
}
