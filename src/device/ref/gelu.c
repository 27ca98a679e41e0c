#include <math.h>

#include "device/ref/ref.h"

#define SQRT_2_OVER_PI 0.79788456080286535588
#define CUBIC          0.044715

trine_status ref_gelu_forward(device *d, void *y_, const void *x_, size_t n) {
    (void)d;
    float *y = y_;
    const float *x_in = x_;
    for (size_t i = 0; i < n; i++) {
        double x = (double)x_in[i];
        y[i] = (float)(0.5 * x * (1.0 + tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x))));
    }
    return TRINE_OK;
}

trine_status ref_gelu_backward(device *d, void *dx_, const void *dy_, const void *x_, size_t n) {
    (void)d;
    float *dx = dx_;
    const float *dy = dy_, *x_in = x_;
    for (size_t i = 0; i < n; i++) {
        double x = (double)x_in[i];
        double t = tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
        double slope = SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * x * x);
        dx[i] = (float)((double)dy[i] * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope));
    }
    return TRINE_OK;
}
