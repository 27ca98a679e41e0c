#include "device/cpu/attention.h"
#include "device/cpu/fused.h"

#define ROWS 8 /* with PAIR: 16 accumulators of 32 registers */
#define PAIR (2 * VEC)

_Static_assert(ATTENTION_PAD % PAIR == 0, "a padded row is a multiple of the tile width");

typedef enum { SET, ADD } store;

/* Inlined with rows = ROWS and rows = 1: with a constant number of rows the accumulators are
 * registers. */
static inline __attribute__((always_inline)) void tile(const size_t rows, const store how,
                                                       float *out, size_t out_step,
                                                       attention_left left, const float *right,
                                                       size_t right_step, size_t terms) {
    vec sums[ROWS][2];
    for (size_t r = 0; r < rows; r++) {
        sums[r][0] = sums[r][1] = (vec){0};
        if (how == SET) continue;
        sums[r][0] = *(const vec_at *)(out + r * out_step);
        sums[r][1] = *(const vec_at *)(out + r * out_step + VEC);
    }
    for (size_t n = 0; n < terms; n++) {
        vec b0 = *(const vec_at *)(right + n * right_step);
        vec b1 = *(const vec_at *)(right + n * right_step + VEC);
        for (size_t r = 0; r < rows; r++) {
            vec a = vec_of(left.at[r * left.row_step + n * left.term_step]);
            sums[r][0] = fused_vec(a, b0, sums[r][0]);
            sums[r][1] = fused_vec(a, b1, sums[r][1]);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        *(vec_at *)(out + r * out_step) = sums[r][0];
        *(vec_at *)(out + r * out_step + VEC) = sums[r][1];
    }
}

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
