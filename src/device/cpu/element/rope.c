#include "device/cpu/element/element.h"
#include "device/documents.h"

/* Heads (rotated, D) of one row; cosines (D / 2) and sines (D / 2). */
static void rotate(element *x, const float *cosines, const float *sines, float sign, size_t rotated,
                   size_t D) {
    for (size_t h = 0; h < rotated; h++) {
        element *low = x + h * D, *high = low + D / 2;
#pragma omp simd
        for (size_t i = 0; i < D / 2; i++) {
            float a = element_get(low[i]), b = element_get(high[i]), sine = sign * sines[i];
            low[i] = element_put(a * cosines[i] - b * sine);
            high[i] = element_put(b * cosines[i] + a * sine);
        }
    }
}

trine_status CPU(rope)(device *d, void *x_, const float *table, const int32_t *starts, bool inverse,
                       size_t first, size_t rows, size_t T, size_t heads, size_t rotated,
                       size_t D) {
    element *x = x_; /* (rows, heads, D) */
#pragma omp parallel for if (rows > 1) num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < rows; i++) {
        const float *angles = table + document_position(starts, first + i, T) * D;
        rotate(x + i * heads * D, angles, angles + D / 2, inverse ? -1.0f : 1.0f, rotated, D);
    }
    return TRINE_OK;
}
