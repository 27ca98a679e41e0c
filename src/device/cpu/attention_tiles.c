#include "device/cpu/attention.h"

/* The processor's vector: sums never run across its elements, so its width changes nothing. */
#if defined(__AVX512F__)
#define WIDTH 16
#else
#define WIDTH 8
#endif
#define PAIR (2 * WIDTH)

typedef float vec __attribute__((vector_size(WIDTH * sizeof(float))));
typedef float vec_at
    __attribute__((vector_size(WIDTH * sizeof(float)), aligned(sizeof(float)), may_alias));

_Static_assert(ATTENTION_PAD % PAIR == 0, "a padded row is a whole number of tiles");

/* Each tile is written once with the number of rows as a parameter and inlined with 8 and with 1:
 * with a constant the accumulators live in registers. */
#define TILE static inline __attribute__((always_inline)) void

TILE scores_tile(const size_t R, float *out, const float *a, size_t a_stride, const float *b,
                 size_t D, size_t wide) {
    vec sums[ATTENTION_ROWS][2];
    for (size_t r = 0; r < R; r++) sums[r][0] = sums[r][1] = (vec){0};
    for (size_t i = 0; i < D; i++) {
        vec b0 = *(const vec_at *)(b + i * wide), b1 = *(const vec_at *)(b + i * wide + WIDTH);
        for (size_t r = 0; r < R; r++) {
            sums[r][0] += b0 * a[r * a_stride + i];
            sums[r][1] += b1 * a[r * a_stride + i];
        }
    }
    for (size_t r = 0; r < R; r++) {
        *(vec_at *)(out + r * wide) = sums[r][0];
        *(vec_at *)(out + r * wide + WIDTH) = sums[r][1];
    }
}

void attention_scores(float *out, const float *a, size_t a_stride, const float *b_transposed,
                      size_t rows, size_t columns, size_t D, size_t wide) {
    for (size_t s = 0; s < columns; s += PAIR) {
        if (rows == ATTENTION_ROWS) {
            scores_tile(ATTENTION_ROWS, out + s, a, a_stride, b_transposed + s, D, wide);
            continue;
        }
        for (size_t r = 0; r < rows; r++)
            scores_tile(1, out + r * wide + s, a + r * a_stride, a_stride, b_transposed + s, D,
                        wide);
    }
}

/* The keys that all rows see: s <= diagonal. */
TILE combine_tile(const size_t R, float *out, const float *p, size_t p_stride, const float *a,
                  size_t diagonal, size_t wide) {
    vec sums[ATTENTION_ROWS][2];
    for (size_t r = 0; r < R; r++) sums[r][0] = sums[r][1] = (vec){0};
    for (size_t s = 0; s <= diagonal; s++) {
        vec a0 = *(const vec_at *)(a + s * wide), a1 = *(const vec_at *)(a + s * wide + WIDTH);
        for (size_t r = 0; r < R; r++) {
            sums[r][0] += a0 * p[r * p_stride + s];
            sums[r][1] += a1 * p[r * p_stride + s];
        }
    }
    for (size_t r = 0; r < R; r++) {
        *(vec_at *)(out + r * wide) = sums[r][0];
        *(vec_at *)(out + r * wide + WIDTH) = sums[r][1];
    }
}

static void add_multiple(float *out, float factor, const float *a, size_t wide) {
#pragma omp simd
    for (size_t i = 0; i < wide; i++) out[i] += factor * a[i];
}

void attention_combine(float *out, const float *p, size_t p_stride, const float *a, size_t rows,
                       size_t diagonal, size_t wide) {
    if (rows < ATTENTION_ROWS) {
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < wide; c += PAIR)
                combine_tile(1, out + r * wide + c, p + r * p_stride, p_stride, a + c, diagonal + r,
                             wide);
        return;
    }
    for (size_t c = 0; c < wide; c += PAIR)
        combine_tile(ATTENTION_ROWS, out + c, p, p_stride, a + c, diagonal, wide);
    /* A key above a row's diagonal is never touched: 0 times a NaN is a NaN. */
    for (size_t r = 1; r < rows; r++)
        for (size_t s = diagonal + 1; s <= diagonal + r; s++)
            add_multiple(out + r * wide, p[r * p_stride + s], a + s * wide, wide);
}

TILE spread_tile(const size_t R, float *out, const float *p, size_t p_stride, const float *a,
                 size_t diagonal, size_t wide) {
    vec rows[ATTENTION_ROWS][2];
    for (size_t r = 0; r < R; r++) {
        rows[r][0] = *(const vec_at *)(a + r * wide);
        rows[r][1] = *(const vec_at *)(a + r * wide + WIDTH);
    }
    for (size_t s = 0; s <= diagonal; s++) {
        vec_at *to0 = (vec_at *)(out + s * wide), *to1 = (vec_at *)(out + s * wide + WIDTH);
        vec sum0 = *to0, sum1 = *to1;
        for (size_t r = 0; r < R; r++) {
            sum0 += rows[r][0] * p[r * p_stride + s];
            sum1 += rows[r][1] * p[r * p_stride + s];
        }
        *to0 = sum0;
        *to1 = sum1;
    }
}

void attention_spread(float *out, const float *p, size_t p_stride, const float *a, size_t rows,
                      size_t diagonal, size_t wide) {
    if (rows < ATTENTION_ROWS) {
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < wide; c += PAIR)
                spread_tile(1, out + c, p + r * p_stride, p_stride, a + r * wide + c, diagonal + r,
                            wide);
        return;
    }
    for (size_t c = 0; c < wide; c += PAIR)
        spread_tile(ATTENTION_ROWS, out + c, p, p_stride, a + c, diagonal, wide);
    for (size_t r = 1; r < rows; r++)
        for (size_t s = diagonal + 1; s <= diagonal + r; s++)
            add_multiple(out + s * wide, p[r * p_stride + s], a + r * wide, wide);
}
