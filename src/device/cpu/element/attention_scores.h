/* The shape of a head, and its scores: products of the keys with a tile of queries, and of the values with a tile of dy.
 * Both factors are packed as floats, or, where the device computes in bf16 and the build has the instruction, read as
 * pairs (attention_pairs.h). For attention.c. */
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

/* ---- Scores: k q, and v dy ---- */

#define PAIRS_OF(type)    PAIRS_PASTE(type)
#define PAIRS_PASTE(type) PAIRS_##type
#define PAIRS_f32         false
#define PAIRS_f16         false
#define PAIRS_bf16        ATTENTION_PAIRS

/* Whether scores are sums over pairs of bf16 numbers (attention_pairs.h); else over floats. */
static inline bool in_pairs(const shape *s) {
    return PAIRS_OF(ELEMENT) && s->D % 2 == 0;
}

static inline const uint16_t *as_bits(const element *x) {
    return (const uint16_t *)(const void *)x;
}

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
    uint32_t *words = (uint32_t *)(void *)out;
    memset(words, 0, s->D / 2 * Q * sizeof *words);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < s->D / 2; i++)
            memcpy(words + i * Q + r, as_bits(in) + r * stride + 2 * i, sizeof *words);
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

/* out (keys, Q) = rows (keys, D) times the columns that pack_columns or pack_pairs made. */
static inline void scores(float *out, const left_rows *rows, const float *columns, size_t keys,
                          const shape *s) {
    if (in_pairs(s))
        attention_pairs_set(out, as_bits(rows->at), rows->step,
                            (const uint32_t *)(const void *)columns, keys, s->D / 2);
    else
        attention_set(out, Q, rows->floats, columns, Q, keys, s->D, Q);
}

#endif
