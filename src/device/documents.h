/* Documents on CPU backends: `starts` of op_args.h, or NULL. Pure. Cost: a few instructions each. */
#ifndef TRINE_DEVICE_DOCUMENTS_H
#define TRINE_DEVICE_DOCUMENTS_H

#include <stddef.h>
#include <stdint.h>

/* The starts (T) of sample b; NULL if there are none. */
static inline const int32_t *documents_of(const int32_t *starts, size_t b, size_t T) {
    return starts ? starts + b * T : NULL;
}

/* Where the document of token t of a sample begins; starts (T) are the sample's. */
static inline size_t document_start(const int32_t *starts, size_t t) {
    return starts ? (size_t)starts[t] : 0;
}

/* Behind the document that begins at token t of a sample of T tokens. Cost: a step a token. */
static inline size_t document_end(const int32_t *starts, size_t t, size_t T) {
    if (!starts) return T;
    size_t end = t + 1;
    while (end < T && starts[end] == starts[t]) end++;
    return end;
}

/* The position of row `row` of a micro-batch (B, T) in its document. */
static inline size_t document_position(const int32_t *starts, size_t row, size_t T) {
    return row % T - document_start(starts, row);
}

/* The first of rows [row, end) of a micro-batch that has position t < T in its document; `end` if there is none. From
 * a row of position p < t the next candidate is t - p rows on, because a document that ends before that has at most t
 * rows; from one of p > t it is t + 1 rows on, because another document must begin. Cost: about T / (t + 1) steps a
 * sample, and a division. */
static inline size_t document_next(const int32_t *starts, size_t t, size_t row, size_t end,
                                   size_t T) {
    for (size_t at = row % T, step; row < end; row += step) {
        const size_t p = at - document_start(starts, row);
        if (p == t) return row;
        step = p < t ? t - p : starts ? t + 1 : T - p + t;
        at += step;
        if (at >= T) at -= T;
    }
    return end;
}

#endif
