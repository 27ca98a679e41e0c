#include "device/cpu/attention.h"
#include "device/cpu/fused.h"

#define ROWS 8 /* with PAIR: 16 accumulators of 32 registers */
#define PAIR (2 * VEC)

_Static_assert(ATTENTION_PAD % PAIR == 0, "a padded row is a multiple of the tile width");

/* SET_TRIANGLE: row r has r more terms; ADD_TRIANGLE: it lacks the first r. */
typedef enum { SET, ADD, SET_TRIANGLE, ADD_TRIANGLE } store;

typedef vec tile_sums[ROWS][2];

/* Term n in rows [from, to). */
static inline __attribute__((always_inline)) void add_term(tile_sums sums, size_t from, size_t to,
                                                           attention_left left, const float *right,
                                                           size_t right_step, size_t n) {
    vec b0 = *(const vec_at *)(right + n * right_step);
    vec b1 = *(const vec_at *)(right + n * right_step + VEC);
    for (size_t r = from; r < to; r++) {
        vec a = vec_of(left.at[r * left.row_step + n * left.term_step]);
        sums[r][0] = fused_vec(a, b0, sums[r][0]);
        sums[r][1] = fused_vec(a, b1, sums[r][1]);
    }
}

/* Inlined with rows = ROWS and rows = 1, and a constant `how`: the loops over rows unroll, and the accumulators are
 * registers. */
static inline __attribute__((always_inline)) void tile(const size_t rows, const store how,
                                                       float *out, size_t out_step,
                                                       attention_left left, const float *right,
                                                       size_t right_step, size_t terms) {
    tile_sums sums;
    size_t n = 0;
    for (size_t r = 0; r < rows; r++) {
        sums[r][0] = sums[r][1] = (vec){0};
        if (how == SET || how == SET_TRIANGLE) continue;
        sums[r][0] = *(const vec_at *)(out + r * out_step);
        sums[r][1] = *(const vec_at *)(out + r * out_step + VEC);
    }
    if (how == ADD_TRIANGLE) {
#pragma GCC unroll 8
        for (size_t k = 1; k < rows; k++, n++) add_term(sums, 0, k, left, right, right_step, n);
    }
    for (; n < terms; n++) add_term(sums, 0, rows, left, right, right_step, n);
    if (how == SET_TRIANGLE) {
#pragma GCC unroll 8
        for (size_t k = 1; k < rows; k++, n++) add_term(sums, k, rows, left, right, right_step, n);
    }
    for (size_t r = 0; r < rows; r++) {
        *(vec_at *)(out + r * out_step) = sums[r][0];
        *(vec_at *)(out + r * out_step + VEC) = sums[r][1];
    }
}

/* A triangle has ROWS rows. */
static inline __attribute__((always_inline)) void
product(const store how, float *out, size_t out_step, attention_left left, const float *right,
        size_t right_step, size_t rows, size_t terms, size_t columns) {
    size_t r = 0;
    for (; r + ROWS <= rows; r += ROWS, out += ROWS * out_step, left.at += ROWS * left.row_step)
        for (size_t c = 0; c < columns; c += PAIR)
            tile(ROWS, how, out + c, out_step, left, right + c, right_step, terms);
    for (; r < rows; r++, out += out_step, left.at += left.row_step)
        for (size_t c = 0; c < columns; c += PAIR)
            tile(1, how, out + c, out_step, left, right + c, right_step, terms);
}

void attention_set(float *out, size_t out_step, attention_left left, const float *right,
                   size_t right_step, size_t rows, size_t terms, size_t columns) {
    product(SET, out, out_step, left, right, right_step, rows, terms, columns);
}

void attention_add(float *out, size_t out_step, attention_left left, const float *right,
                   size_t right_step, size_t rows, size_t terms, size_t columns) {
    product(ADD, out, out_step, left, right, right_step, rows, terms, columns);
}

void attention_set_triangle(float *out, size_t out_step, attention_left left, const float *right,
                            size_t right_step, size_t rows, size_t terms, size_t columns) {
    size_t r = 0;
    for (; r + ROWS <= rows; r += ROWS, terms += ROWS) {
        product(SET_TRIANGLE, out, out_step, left, right, right_step, ROWS, terms, columns);
        out += ROWS * out_step, left.at += ROWS * left.row_step;
    }
    for (; r < rows; r++, terms++) {
        product(SET, out, out_step, left, right, right_step, 1, terms, columns);
        out += out_step, left.at += left.row_step;
    }
}

void attention_add_triangle(float *out, size_t out_step, attention_left left, const float *right,
                            size_t right_step, size_t rows, size_t terms, size_t columns) {
    size_t r = 0;
    for (; r + ROWS <= rows; r += ROWS, terms -= ROWS) {
        product(ADD_TRIANGLE, out, out_step, left, right, right_step, ROWS, terms, columns);
        out += ROWS * out_step, right += ROWS * right_step;
        left.at += ROWS * (left.row_step + left.term_step);
    }
    for (; r < rows; r++, terms--) {
        product(ADD, out, out_step, left, right, right_step, 1, terms, columns);
        out += out_step, right += right_step;
        left.at += left.row_step + left.term_step;
    }
}
