/* One pass: four streams in, three out, 28 bytes an element. */
#include <math.h>

#include "device/cuda/kernel.cuh"

#define THREADS 256
#define BLOCKS  6 /* of a multiprocessor, at once */

typedef struct {
    float lr, beta1, beta2, eps, decay, scale, gain1, gain2, unbias1, unbias2;
} factors;

/* In cpu/adamw.c's order. */
static inline __device__ void update(float *w, float *m, float *v, float g, const factors *f) {
    float grad = g * f->scale;
    float first = f->beta1 * *m + f->gain1 * grad;
    float second = f->beta2 * *v + f->gain2 * grad * grad;
    float step = first * f->unbias1 / (sqrtf(second * f->unbias2) + f->eps);
    *w -= f->lr * (f->decay * *w + step);
    *m = first;
    *v = second;
}

static __global__ AT_ONCE(THREADS, BLOCKS) void adamw_kernel(float *w, float *m, float *v,
                                                             const float *g, size_t n, size_t fours,
                                                             factors f) {
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, step = (size_t)gridDim.x * THREADS;
    for (size_t k = first; k < fours; k += step) {
        four a = load4(w + 4 * k), b = load4(m + 4 * k), c = load4(v + 4 * k);
        four grad = load4(g + 4 * k);
        for (int j = 0; j < 4; j++) update(&a.at[j], &b.at[j], &c.at[j], grad.at[j], &f);
        store4(w + 4 * k, a);
        store4(m + 4 * k, b);
        store4(v + 4 * k, c);
    }
    for (size_t i = 4 * fours + first; i < n; i += step) update(w + i, m + i, v + i, g[i], &f);
}

trine_status cuda_adamw(device *d, float *w, float *m, float *v, void *copy, const void *g_,
                        size_t n, const adamw_args *args) {
    const float *g = (const float *)g_;
    (void)copy;
    if (n == 0) return TRINE_OK;
    /* What is near 1 is subtracted in double and rounded after. */
    double b1 = (double)args->beta1, b2 = (double)args->beta2, step = (double)args->step;
    factors f = {args->lr,
                 args->beta1,
                 args->beta2,
                 args->eps,
                 args->decay,
                 args->scale,
                 (float)(1.0 - b1),
                 (float)(1.0 - b2),
                 (float)(1.0 / (1.0 - pow(b1, step))),
                 (float)(1.0 / (1.0 - pow(b2, step)))};
    bool aligned = cuda_aligned(w) && cuda_aligned(m) && cuda_aligned(v) && cuda_aligned(g);
    size_t fours = aligned ? n / 4 : 0;
    unsigned grid = cuda_grid(d, cuda_ceil(fours ? fours : n, THREADS), BLOCKS);
    LAUNCH(d, adamw_kernel, grid, THREADS, 0)(w, m, v, g, n, fours, f);
    return LAUNCHED(adamw_kernel);
}
