/* One pass: four streams in, three out, 28 bytes an element; with 16-bit weights one more out, and
 * 30, or 28 where gradients have 16 bits, too. */
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

/* Whether weights of type real are a copy of the master. */
template <typename real> static inline __host__ __device__ constexpr bool copied() {
    return sizeof(real) < sizeof(float);
}

template <typename real, typename grad>
static __global__ AT_ONCE(THREADS, BLOCKS) void adamw_kernel(float *w, float *m, float *v,
                                                             real *copy, const grad *g, size_t n,
                                                             size_t fours, factors f) {
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, step = (size_t)gridDim.x * THREADS;
    for (size_t k = first; k < fours; k += step) {
        four a = load4(w + 4 * k), b = load4(m + 4 * k), c = load4(v + 4 * k);
        four slope = load4(g + 4 * k);
        for (int j = 0; j < 4; j++) update(&a.at[j], &b.at[j], &c.at[j], slope.at[j], &f);
        store4(w + 4 * k, a);
        if (copied<real>()) store4(copy + 4 * k, a);
        store4(m + 4 * k, b);
        store4(v + 4 * k, c);
    }
    for (size_t i = 4 * fours + first; i < n; i += step) {
        update(w + i, m + i, v + i, load(g + i), &f);
        if (copied<real>()) store(copy + i, w[i]);
    }
}

template <typename real, typename grad>
static trine_status adamw(device *d, float *w, float *m, float *v, void *copy_, const void *g_,
                          size_t n, const adamw_args *args) {
    real *copy = (real *)copy_;
    const grad *g = (const grad *)g_;
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
    bool aligned = cuda_aligned(w) && cuda_aligned(m) && cuda_aligned(v) && cuda_aligned(g) &&
                   (!copied<real>() || cuda_aligned(copy));
    size_t fours = aligned ? n / 4 : 0;
    unsigned grid = cuda_grid(d, cuda_ceil(fours ? fours : n, THREADS), BLOCKS);
    auto kernel = adamw_kernel<real, grad>;
    LAUNCH(d, kernel, grid, THREADS, 0)(w, m, v, copy, g, n, fours, f);
    return LAUNCHED(adamw_kernel);
}

CUDA_OF_BOTH(adamw);
