#include "device/ref/ref.h"

/* In float, as other elementwise additions. */
trine_status ref_columns_add(device *d, void *y, const void *x, float scale, size_t T, size_t N,
                             size_t at, size_t n) {
    for (size_t i = 0; i < T * n; i++) {
        size_t to = i / n * N + at + i % n;
        float product = scale * (float)ref_load(d->compute, x, i);
        ref_store(d->compute, y, to, (double)((float)ref_load(d->compute, y, to) + product));
    }
    return TRINE_OK;
}

trine_status ref_columns_take(device *d, void *y, const void *x, float scale, size_t T, size_t N,
                              size_t at, size_t n) {
    for (size_t i = 0; i < T * n; i++)
        ref_store(d->compute, y, i,
                  (double)(scale * (float)ref_load(d->compute, x, i / n * N + at + i % n)));
    return TRINE_OK;
}
