#include <math.h>

#include "device/ref/ref.h"

static void update(const device *d, float *w, float *m, float *v, void *copy, const void *g,
                   const ops_part *part, const adamw_args *args) {
    double decay = part->decays ? (double)args->decay : 0.0;
    double beta1 = (double)args->beta1, beta2 = (double)args->beta2;
    double m_unbias = 1.0 / (1.0 - pow(beta1, (double)args->step));
    double v_unbias = 1.0 / (1.0 - pow(beta2, (double)args->step));
    for (size_t i = part->at; i < part->at + part->n; i++) {
        double grad = ref_load(d->grads, g, i) * (double)args->scale;
        double first = beta1 * (double)m[i] + (1.0 - beta1) * grad;
        double second = beta2 * (double)v[i] + (1.0 - beta2) * grad * grad;
        double step = first * m_unbias / (sqrt(second * v_unbias) + (double)args->eps);
        w[i] = (float)((double)w[i] - (double)args->lr * (decay * (double)w[i] + step));
        m[i] = (float)first;
        v[i] = (float)second;
        if (copy) ref_store(d->compute, copy, i, (double)w[i]);
    }
}

trine_status ref_adamw(device *d, float *w, float *m, float *v, void *copy, const void *g,
                       const ops_part *parts, int count, const adamw_args *args) {
    for (int p = 0; p < count; p++) update(d, w, m, v, copy, g, &parts[p], args);
    return TRINE_OK;
}
