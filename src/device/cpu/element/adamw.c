#include <math.h>

#include "device/cpu/element/element.h"

/* The factors that are the same for all elements. Differences from 1 are computed in double and then rounded. */
typedef struct {
    float beta1, beta2, gain1, gain2, unbias1, unbias2, scale, lr, decay, eps;
} factors;

static factors factors_of(const adamw_args *args) {
    double b1 = (double)args->beta1, b2 = (double)args->beta2;
    return (factors){.beta1 = args->beta1,
                     .beta2 = args->beta2,
                     .gain1 = (float)(1.0 - b1),
                     .gain2 = (float)(1.0 - b2),
                     .unbias1 = (float)(1.0 / (1.0 - pow(b1, (double)args->step))),
                     .unbias2 = (float)(1.0 / (1.0 - pow(b2, (double)args->step))),
                     .scale = args->scale,
                     .lr = args->lr,
                     .decay = args->decay,
                     .eps = args->eps};
}

/* The new weight. */
static inline float update(float w, float *m, float *v, float g, const factors *f) {
    float scaled = g * f->scale;
    float first = f->beta1 * *m + f->gain1 * scaled;
    float second = f->beta2 * *v + f->gain2 * scaled * scaled;
    float step = first * f->unbias1 / (sqrtf(second * f->unbias2) + f->eps);
    *m = first;
    *v = second;
    return w - f->lr * (f->decay * w + step);
}

static void update_all(const device *d, float *w, float *m, float *v, element *copy, const grad *g,
                       size_t n, factors f) {
    if (copy) {
#pragma omp parallel for simd num_threads(d->threads) schedule(static)
        for (size_t i = 0; i < n; i++) {
            float weight = update(w[i], &m[i], &v[i], grad_get(g[i]), &f);
            w[i] = weight;
            copy[i] = element_put(weight);
        }
        return;
    }
#pragma omp parallel for simd num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < n; i++) w[i] = update(w[i], &m[i], &v[i], grad_get(g[i]), &f);
}

trine_status CPU(adamw)(device *d, float *w, float *m, float *v, void *copy_, const void *g_,
                        const ops_part *parts, int count, const adamw_args *args) {
    const grad *g = g_;
    element *copy = copy_;
    for (int p = 0; p < count; p++) {
        size_t at = parts[p].at;
        factors f = factors_of(args);
        if (!parts[p].decays) f.decay = 0.0f;
        update_all(d, w + at, m + at, v + at, copy ? copy + at : NULL, g + at, parts[p].n, f);
    }
    return TRINE_OK;
}
