#include "device/documents.h"
#include "device/ref/ref.h"

/* Head at element `at` of x; cosines (D / 2) and sines (D / 2). */
static void rotate(trine_dtype type, void *x, size_t at, const float *table, double sign,
                   size_t D) {
    for (size_t i = 0; i < D / 2; i++) {
        double a = ref_load(type, x, at + i), b = ref_load(type, x, at + D / 2 + i);
        double cosine = (double)table[i], sine = sign * (double)table[D / 2 + i];
        ref_store(type, x, at + i, a * cosine - b * sine);
        ref_store(type, x, at + D / 2 + i, b * cosine + a * sine);
    }
}

/* x (rows, heads, D), table (T, D) */
trine_status ref_rope(device *d, void *x, const float *table, const int32_t *starts, bool inverse,
                      size_t first, size_t rows, size_t T, size_t heads, size_t rotated, size_t D) {
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < rotated; h++)
            rotate(d->compute, x, (i * heads + h) * D,
                   table + document_position(starts, first + i, T) * D, inverse ? -1.0 : 1.0, D);
    return TRINE_OK;
}
