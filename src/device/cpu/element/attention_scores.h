/* The shape of a head, and the products of attention.h: the only file that distinguishes floats from bf16 pairs
 * (attention_pairs.h), which a device of compute type bf16 has if the build has the instruction. For attention.c. */
#ifndef TRINE_DEVICE_CPU_ELEMENT_ATTENTION_SCORES_H
#define TRINE_DEVICE_CPU_ELEMENT_ATTENTION_SCORES_H

#include <math.h>
#include <string.h>

#include "device/cpu/attention.h"
#include "device/cpu/attention_pairs.h"
#include "device/cpu/element/element.h"

#define Q ATTENTION_QUERIES

typedef struct {
    size_t T, H, K, D, wide;
    size_t group;                /* query heads of a key and value head */
    size_t qkv_stride, y_stride; /* from one row of a head to the next */
    float scale;
} shape;

static inline shape shape_of(size_t T, size_t H, size_t K, size_t D) {
    return (shape){.T = T,
                   .H = H,
                   .K = K,
                   .D = D,
                   .wide = attention_padded(D),
                   .group = K ? H / K : 1,
                   .qkv_stride = (H + 2 * K) * D,
                   .y_stride = H * D,
                   .scale = 1.0f / sqrtf((float)D)};
}

/* out (rows, wide) = in (rows, D), padded with zeros. */
static inline void pack(float *out, const element *in, size_t stride, size_t rows, const shape *s) {
    for (size_t t = 0; t < rows; t++) {
        float *row = out + t * s->wide;
        for (size_t i = 0; i < s->D; i++) row[i] = element_get(in[t * stride + i]);
        memset(row + s->D, 0, (s->wide - s->D) * sizeof(float));
    }
}

#define PAIRS_OF(type)    PAIRS_PASTE(type)
#define PAIRS_PASTE(type) PAIRS_##type
#define PAIRS_f32         false
#define PAIRS_f16         false
#define PAIRS_bf16        ATTENTION_PAIRS

/* Whether products are sums over pairs of bf16 numbers (attention_pairs.h); else over floats. */
static inline bool in_pairs(const shape *s) {
    return PAIRS_OF(ELEMENT) && s->D % 2 == 0;
}

static inline const uint16_t *as_bits(const element *x) {
    return (const uint16_t *)(const void *)x;
}

/* The scratch is floats; a product in pairs has words or halves there. */
static inline uint32_t *as_words(float *x) {
    return (uint32_t *)(void *)x;
}
static inline uint16_t *as_halves(float *x) {
    return (uint16_t *)(void *)x;
}

/* out = rows of a head as the right factor of a sum over rows: floats (rows, wide), or pairs of rows
 * ((rows + 1) / 2, wide). */
static inline void pack_right(float *out, const element *in, size_t stride, size_t rows,
                              const shape *s) {
    if (!in_pairs(s)) {
        pack(out, in, stride, rows, s);
        return;
    }
    uint32_t *words = as_words(out);
    for (size_t t = 0; t < rows; t += 2, words += s->wide) {
        const uint16_t *low = as_bits(in) + t * stride;
        attention_pairs_of_rows(words, low, t + 1 < rows ? low + stride : NULL, s->D);
        if (s->wide > s->D) memset(words + s->D, 0, (s->wide - s->D) * sizeof *words);
    }
}

/* ---- Scores: k q, and v dy ---- */

/* Keys or values of a head: rows of D elements, and, unless in_pairs, the same as floats. */
typedef struct {
    const element *at;
    size_t step;
    attention_left floats;
} left_rows;

/* out (D, Q) = in (rows, wide) transposed, padded with zeros. */
static inline void pack_columns(float *out, const float *in, size_t rows, const shape *s) {
    for (size_t i = 0; i < s->D; i++) {
        float *row = out + i * Q;
        for (size_t r = 0; r < rows; r++) row[r] = in[r * s->wide + i];
        for (size_t r = rows; r < Q; r++) row[r] = 0.0f;
    }
}

/* The same of elements, in pairs: out (D / 2, Q). */
static inline void pack_pairs(float *out, const element *in, size_t stride, size_t rows,
                              const shape *s) {
    uint32_t *words = as_words(out);
    for (size_t i = 0; i < s->D / 2; i++, words += Q) {
        for (size_t r = 0; r < rows; r++)
            memcpy(words + r, as_bits(in) + r * stride + 2 * i, sizeof *words);
        for (size_t r = rows; r < Q; r++) words[r] = 0;
    }
}

/* columns = rows of a head, packed in the form that scores reads; `floats` (rows, wide) is scratch, or their
 * packed form. */
static inline void columns_of(float *columns, float *floats, const element *in, size_t stride,
                              size_t rows, const shape *s) {
    if (in_pairs(s)) {
        pack_pairs(columns, in, stride, rows, s);
    } else {
        pack(floats, in, stride, rows, s);
        pack_columns(columns, floats, rows, s);
    }
}

/* Rows [first, end) of out (keys, Q) = rows (keys, D) times the columns that pack_columns or pack_pairs made. */
static inline void scores(float *out, const left_rows *rows, float *columns, size_t first,
                          size_t end, const shape *s) {
    attention_pairs_left pairs = {as_bits(rows->at) + first * rows->step, rows->step, 2};
    attention_left floats = rows->floats;
    floats.at += first * floats.row_step;
    out += first * Q;
    if (in_pairs(s))
        attention_pairs_set(out, Q, pairs, as_words(columns), Q, end - first, s->D, Q);
    else
        attention_set(out, Q, floats, columns, Q, end - first, s->D, Q);
}

/* ---- Sums over keys or queries: row r of a tile attends to the keys s <= t + r of its document ----
 *
 * Their left factors are probabilities, or gradients of scores: p (keys, Q) and ds (keys, Q). As halves they are in
 * the places of the scores that they are computed from. For sums over keys: words (keys / 2, Q), of two keys for each
 * query. For sums over queries: (keys, 2, Q), p and ds, both in the place of p. Pairs are those of a document, from
 * its first row or key in the tile on: it has as many places as rows, and half of them as pairs. */

/* Rows [row, row + rows) of a tile, of one document, and its keys in the tile, [first, end). Sums run over spans, so
 * that a row of another document is not even multiplied by zero. */
typedef struct {
    size_t row, rows, first, end;
} span;

/* Queries [t, t + rows) of one head and the keys [0, keys) that they attend to, counted from key `from` of the
 * sample; keys = t + rows. The spans are in ascending order, and all but the first begin with a row of the tile. */
typedef struct {
    size_t from, t, rows, keys;
    attention_mask mask;
    size_t count;
    span spans[Q];
} block;

#define EACH_SPAN(g, b) for (const span *g = (b)->spans; g < (b)->spans + (b)->count; g++)

/* The number of keys before the first row of a span, of its document. */
static inline size_t keys_before(const span *g, const block *b) {
    return b->t + g->row - g->first;
}

/* Queries [r, r + VEC) of row n of p, for over_keys. Rows come in ascending order. */
static inline void put_over_keys(float *p, size_t n, size_t r, vec x, const shape *s) {
    if (in_pairs(s))
        attention_pairs_put(as_words(p) + n / 2 * Q + r, x, n % 2);
    else
        vec_store(p + n * Q + r, x);
}

/* Row n of p, for over_rows, and of ds, for both. */
static inline void put_gradients(float *p, float *ds, size_t n, const vec *p_row, const vec *ds_row,
                                 const shape *s) {
    for (size_t c = 0, r = 0; c < Q / VEC; c++, r += VEC) {
        put_over_keys(ds, n, r, ds_row[c], s);
        if (in_pairs(s)) {
            attention_pairs_round(as_halves(p) + 2 * n * Q + r, p_row[c]);
            attention_pairs_round(as_halves(p) + (2 * n + 1) * Q + r, ds_row[c]);
        } else {
            vec_store(p + n * Q + r, p_row[c]);
        }
    }
}

/* out (rows, wide) = p^T a over the keys that each row attends to. Keys above the diagonal are not
 * read, because 0 times a NaN is a NaN. a is of pack_right, document by document. */
static inline void over_keys(float *out, float *p, float *a, const block *b, const shape *s) {
    EACH_SPAN(g, b) {
        const size_t terms = keys_before(g, b) + 1;
        float *to = out + g->row * s->wide, *left = p + g->first * Q + g->row;
        float *right = a + g->first * s->wide;
        if (in_pairs(s))
            attention_pairs_set_triangle(to, s->wide,
                                         (attention_pairs_left){as_halves(left), 2, 2 * Q},
                                         as_words(right), s->wide, g->rows, terms, s->wide);
        else
            attention_set_triangle(to, s->wide, (attention_left){left, 1, Q}, right, s->wide,
                                   g->rows, terms, s->wide);
    }
}

/* out (keys, wide) += p a over the rows that attend to each key. `halves` is p (keys, 2, Q), or ds, in pairs; a is of
 * pack_spans. */
static inline void over_rows(float *out, const float *p, const uint16_t *halves, float *a,
                             const block *b, const shape *s) {
    EACH_SPAN(g, b) {
        const size_t before = keys_before(g, b), at = g->first * Q + g->row;
        float *to = out + g->first * s->wide, *last = to + before * s->wide;
        float *right = a + g->row * s->wide;
        if (in_pairs(s)) {
            attention_pairs_left left = {halves + g->first * Q + at, 2 * Q, 2};
            attention_pairs_add(to, s->wide, left, as_words(right), s->wide, before, g->rows,
                                s->wide);
            left.at += 2 * before * Q;
            attention_pairs_add_triangle(last, s->wide, left, as_words(right), s->wide, g->rows,
                                         g->rows, s->wide);
        } else {
            attention_left left = {p + at, Q, 1};
            attention_add(to, s->wide, left, right, s->wide, before, g->rows, s->wide);
            left.at += before * Q;
            attention_add_triangle(last, s->wide, left, right, s->wide, g->rows, g->rows, s->wide);
        }
    }
}

/* out = rows of a tile, packed span by span. */
static inline void pack_spans(float *out, const element *in, size_t stride, const block *b,
                              const shape *s) {
    EACH_SPAN(g, b)
        pack_right(out + g->row * s->wide, in + g->row * stride, stride, g->rows, s);
}

#endif
