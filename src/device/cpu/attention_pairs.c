#include "device/cpu/attention_pairs.h"

#include <string.h>

#include "device/cpu/fused.h"

#define ROWS 8 /* with two vectors of columns: 16 accumulators of 32 registers */

typedef attention_words words;
typedef attention_words_at words_at;

/* sums + a.low b.low + a.high b.high */
#if ATTENTION_PAIRS
static inline vec add_pairs(vec sums, words a, words b) {
    return (vec)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
}
#else
static inline vec add_pairs(vec sums, words a, words b) {
    sums = fused_vec((vec)(a << 16), (vec)(b << 16), sums);
    return fused_vec((vec)(a & 0xFFFF0000u), (vec)(b & 0xFFFF0000u), sums);
}
#endif

static inline words words_of(uint32_t x) {
    return x - (words){0};
}

static inline uint32_t pair_at(const uint16_t *at) {
    uint32_t pair;
    memcpy(&pair, at, sizeof pair);
    return pair;
}

/* Inlined with rows = ROWS and rows = 1, and a constant `add`. */
static inline __attribute__((always_inline)) void
tile(const size_t rows, const bool add, float *out, size_t out_step, attention_pairs_left left,
     const uint32_t *right, size_t right_step, size_t pairs) {
    vec sums[ROWS][2];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < 2; c++) {
            sums[r][c] = (vec){0};
            if (add) sums[r][c] = vec_load(out + r * out_step + c * VEC);
        }
    for (size_t n = 0; n < pairs; n++) {
        const words b0 = *(const words_at *)(right + n * right_step);
        const words b1 = *(const words_at *)(right + n * right_step + VEC);
        for (size_t r = 0; r < rows; r++) {
            words a = words_of(pair_at(left.at + r * left.row_step + n * left.pair_step));
            sums[r][0] = add_pairs(sums[r][0], a, b0);
            sums[r][1] = add_pairs(sums[r][1], a, b1);
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < 2; c++) vec_store(out + r * out_step + c * VEC, sums[r][c]);
}

static inline __attribute__((always_inline)) void
product(const bool add, float *out, size_t out_step, attention_pairs_left left,
        const uint32_t *right, size_t right_step, size_t rows, size_t pairs, size_t columns) {
    size_t r = 0;
    for (; r + ROWS <= rows; r += ROWS, out += ROWS * out_step, left.at += ROWS * left.row_step)
        for (size_t c = 0; c < columns; c += 2 * VEC)
            tile(ROWS, add, out + c, out_step, left, right + c, right_step, pairs);
    for (; r < rows; r++, out += out_step, left.at += left.row_step)
        for (size_t c = 0; c < columns; c += 2 * VEC)
            tile(1, add, out + c, out_step, left, right + c, right_step, pairs);
}

/* out (columns) += terms [first, end) of one row. Of a pair with a single term the other number is not used, since 0
 * times a NaN is a NaN. */
static void add_terms(float *out, attention_pairs_left left, const uint32_t *right,
                      size_t right_step, size_t first, size_t end, size_t columns) {
    while (first < end) {
        const size_t n = first / 2, next = 2 * n + 2 < end ? 2 * n + 2 : end;
        const uint32_t mask = (first % 2 ? 0 : 0xFFFFu) | (next % 2 ? 0 : 0xFFFF0000u);
        const words a = words_of(pair_at(left.at + n * left.pair_step) & mask);
        for (size_t c = 0; c < columns; c += VEC) {
            const words b = *(const words_at *)(right + n * right_step + c) & mask;
            vec_store(out + c, add_pairs(vec_load(out + c), a, b));
        }
        first = next;
    }
}

void attention_pairs_set(float *out, size_t out_step, attention_pairs_left left,
                         const uint32_t *right, size_t right_step, size_t rows, size_t terms,
                         size_t columns) {
    product(false, out, out_step, left, right, right_step, rows, terms / 2, columns);
}

void attention_pairs_add(float *out, size_t out_step, attention_pairs_left left,
                         const uint32_t *right, size_t right_step, size_t rows, size_t terms,
                         size_t columns) {
    product(true, out, out_step, left, right, right_step, rows, terms / 2, columns);
    for (size_t r = 0; terms % 2 && r < rows; r++, left.at += left.row_step)
        add_terms(out + r * out_step, left, right, right_step, terms - 1, terms, columns);
}

/* The pairs that all rows of a tile have are a product; those before or after are added row by row. */

void attention_pairs_set_triangle(float *out, size_t out_step, attention_pairs_left left,
                                  const uint32_t *right, size_t right_step, size_t rows,
                                  size_t terms, size_t columns) {
    for (size_t r = 0; r < rows; r += ROWS) {
        const size_t own = rows - r < ROWS ? rows - r : ROWS, common = (terms + r) / 2;
        product(false, out, out_step, left, right, right_step, own, common, columns);
        for (size_t i = 0; i < own; i++, out += out_step, left.at += left.row_step)
            add_terms(out, left, right, right_step, 2 * common, terms + r + i, columns);
    }
}

void attention_pairs_add_triangle(float *out, size_t out_step, attention_pairs_left left,
                                  const uint32_t *right, size_t right_step, size_t rows,
                                  size_t terms, size_t columns) {
    for (size_t r = 0; r < rows; r += ROWS) {
        const size_t own = rows - r < ROWS ? rows - r : ROWS, common = (r + own) / 2;
        attention_pairs_left after = left, row = left;
        after.at += common * left.pair_step;
        for (size_t i = 0; i < own; i++, row.at += left.row_step)
            add_terms(out + i * out_step, row, right, right_step, r + i, 2 * common, columns);
        attention_pairs_add(out, out_step, after, right + common * right_step, right_step, own,
                            terms - 2 * common, columns);
        out += own * out_step, left.at += own * left.row_step;
    }
}

/* ---- One row ---- */

/* VEC numbers, or fewer, padded with zeros. */
static inline words widened(const uint16_t *at, size_t count) {
    attention_halves x = {0};
    if (count == VEC)
        memcpy(&x, at, sizeof x);
    else
        memcpy(&x, at, count * sizeof *at);
    return __builtin_convertvector(x, words);
}

/* The pairs of two rows; `high` NULL: zeros. */
static inline words pairs_of(const uint16_t *low, const uint16_t *high, size_t count) {
    const words pairs = widened(low, count);
    return high ? pairs | widened(high, count) << 16 : pairs;
}

void attention_pairs_of_rows(uint32_t *out, const uint16_t *low, const uint16_t *high, size_t n) {
    size_t i = 0;
    for (; i + VEC <= n; i += VEC)
        *(words_at *)(out + i) = pairs_of(low + i, high ? high + i : NULL, VEC);
    if (i == n) return;
    const words last = pairs_of(low + i, high ? high + i : NULL, n - i);
    memcpy(out + i, &last, (n - i) * sizeof *out);
}

/* At most AT_ONCE vectors of columns at a time hide the latency of an addition. */
#define AT_ONCE 4

/* Inlined with constant vectors and own = 0, or one vector of `own` columns. */
static inline __attribute__((always_inline)) void row_columns(const size_t vectors, size_t own,
                                                              float *out, const uint16_t *left,
                                                              const uint16_t *right, size_t step,
                                                              size_t terms) {
    vec sums[AT_ONCE];
    for (size_t c = 0; c < vectors; c++) sums[c] = (vec){0};
    for (size_t n = 0; n < terms; n += 2) {
        const bool both = n + 1 < terms;
        const words a = words_of(both ? pair_at(left + n) : left[n]);
        for (size_t c = 0; c < vectors; c++) {
            const uint16_t *at = right + n * step + c * VEC;
            sums[c] = add_pairs(sums[c], a, pairs_of(at, both ? at + step : NULL, own ? own : VEC));
        }
    }
    for (size_t c = 0; c < vectors; c++)
        memcpy(out + c * VEC, &sums[c], (own ? own : VEC) * sizeof *out);
}

void attention_pairs_row(float *out, const uint16_t *left, const uint16_t *right, size_t step,
                         size_t terms, size_t columns) {
    size_t c = 0;
    for (; c + AT_ONCE * VEC <= columns; c += AT_ONCE * VEC)
        row_columns(AT_ONCE, 0, out + c, left, right + c, step, terms);
    for (; c + VEC <= columns; c += VEC) row_columns(1, 0, out + c, left, right + c, step, terms);
    if (c < columns) row_columns(1, columns - c, out + c, left, right + c, step, terms);
}
