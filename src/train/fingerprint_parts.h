/* What the files of fingerprints share. */
#ifndef TRINE_TRAIN_FINGERPRINT_PARTS_H
#define TRINE_TRAIN_FINGERPRINT_PARTS_H

#include "base/half.h"
#include "core/flat.h"

/* Element n of memory of a type. Pure. */
static inline float fingerprint_element(trine_dtype type, const void *at, size_t n) {
    if (type == TRINE_BF16) return bf16_load(((const uint16_t *)at)[n]);
    if (type == TRINE_F16) return f16_load(((const uint16_t *)at)[n]);
    return ((const float *)at)[n];
}

/* The place of element n of this rank's tensor in the unsharded one; false: it is padding. Pure. */
static inline bool fingerprint_place(const tensor *t, size_t n, uint64_t *place) {
    const size_t each = t->rows * t->cols, part = n / each, row = n % each / t->cols,
                 col = n % t->cols;
    if (t->first_row + row >= t->global_rows) return false;
    *place = (part * t->global_rows + t->first_row + row) * t->global_cols + t->first_col + col;
    return true;
}

#endif
