#include <math.h>

#include "device/ref/ref.h"

/* y (T, F), x (T, 2, F) */
trine_status ref_swiglu_forward(device *d, void *y, const void *x, size_t T, size_t F) {
    for (size_t t = 0; t < T; t++)
        for (size_t f = 0; f < F; f++) {
            double gate = ref_load(d->compute, x, 2 * t * F + f);
            double up = ref_load(d->compute, x, (2 * t + 1) * F + f);
            ref_store(d->compute, y, t * F + f, gate / (1.0 + exp(-gate)) * up);
        }
    return TRINE_OK;
}

/* silu' = s + g s (1 - s) with s = 1 / (1 + exp(-g)), 1 - s = 1 / (1 + exp(g)).
 * dx, x (T, 2, F), dy (T, F) */
trine_status ref_swiglu_backward(device *d, void *dx, const void *dy_, const void *x, size_t T,
                                 size_t F) {
    for (size_t t = 0; t < T; t++)
        for (size_t f = 0; f < F; f++) {
            double gate = ref_load(d->compute, x, 2 * t * F + f);
            double up = ref_load(d->compute, x, (2 * t + 1) * F + f);
            double dy = ref_load(d->compute, dy_, t * F + f);
            double s = 1.0 / (1.0 + exp(-gate)), rest = 1.0 / (1.0 + exp(gate));
            ref_store(d->compute, dx, 2 * t * F + f, dy * up * (s + gate * s * rest));
            ref_store(d->compute, dx, (2 * t + 1) * F + f, dy * (gate * s));
        }
    return TRINE_OK;
}
