#include <math.h>

#include "device/ref/ref.h"

#define SQRT_2_OVER_PI 0.79788456080286535588
#define CUBIC          0.044715

trine_status ref_gelu_forward(device *d, void *y, const void *x_, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double x = ref_load(d->compute, x_, i);
        ref_store(d->compute, y, i,
                  0.5 * x * (1.0 + tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x))));
    }
    return TRINE_OK;
}

trine_status ref_gelu_backward(device *d, void *dx, const void *dy, const void *x_, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double x = ref_load(d->compute, x_, i);
        double t = tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
        double slope = SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * x * x);
        ref_store(d->compute, dx, i,
                  ref_load(d->compute, dy, i) *
                      (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope));
    }
    return TRINE_OK;
}
