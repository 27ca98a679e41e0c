#include "device/ref/ref.h"

/* The sum of `parts` addends from x[i] on, `stride` elements apart. */
static float tree(trine_dtype type, const void *x, size_t i, size_t parts, size_t stride) {
    size_t cut = 1;
    if (parts == 1) return (float)ref_load(type, x, i);
    while (2 * cut < parts) cut *= 2;
    return tree(type, x, i, cut, stride) + tree(type, x, i + cut * stride, parts - cut, stride);
}

trine_status ref_sum_parts(device *d, void *y, bool y_wide, const void *x, bool x_wide,
                           size_t parts, size_t stride, size_t n) {
    trine_dtype in = x_wide ? TRINE_F32 : d->compute, out = y_wide ? TRINE_F32 : d->compute;
    for (size_t i = 0; i < n; i++) ref_store(out, y, i, (double)tree(in, x, i, parts, stride));
    return TRINE_OK;
}
