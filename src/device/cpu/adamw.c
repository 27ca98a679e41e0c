#include <math.h>

#include "device/cpu/cpu.h"

trine_status cpu_adamw(device *d, float *w, float *m, float *v, void *copy, const void *g_,
                       size_t n, const adamw_args *args) {
    const float *g = g_;
    (void)copy;
    /* What is near 1 is subtracted in double and rounded after. */
    double b1 = (double)args->beta1, b2 = (double)args->beta2;
    const float beta1 = args->beta1, beta2 = args->beta2;
    const float gain1 = (float)(1.0 - b1), gain2 = (float)(1.0 - b2);
    const float unbias1 = (float)(1.0 / (1.0 - pow(b1, (double)args->step)));
    const float unbias2 = (float)(1.0 / (1.0 - pow(b2, (double)args->step)));
    const float scale = args->scale, lr = args->lr, decay = args->decay, eps = args->eps;
#pragma omp parallel for simd num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < n; i++) {
        float grad = g[i] * scale;
        float first = beta1 * m[i] + gain1 * grad;
        float second = beta2 * v[i] + gain2 * grad * grad;
        float step = first * unbias1 / (sqrtf(second * unbias2) + eps);
        w[i] -= lr * (decay * w[i] + step);
        m[i] = first;
        v[i] = second;
    }
    return TRINE_OK;
}
