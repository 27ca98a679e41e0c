/* One pass and one launch for all parts of a call: four reads and three writes, 28 bytes per element. With 16-bit
 * weights one more write: 30 bytes, or 28 if gradients have 16 bits, too. */
#include <math.h>

#include "device/cuda/kernel.cuh"

#define THREADS 256
#define BLOCKS  6 /* of a multiprocessor, at once */

typedef struct {
    float lr, beta1, beta2, eps, decay, scale, gain1, gain2, unbias1, unbias2;
} factors;

/* In the order of cpu/element/adamw.c. */
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

#define CHUNK 4096 /* elements that a thread block processes at a time; all of the same part */

/* Part i has the chunks [first[i], first[i + 1]). */
typedef struct {
    size_t at[OPS_PARTS], n[OPS_PARTS];
    unsigned first[OPS_PARTS + 1];
    bool decays[OPS_PARTS];
    int count;
} table;

/* VECTOR: every part starts at a multiple of four elements. */
template <bool VECTOR, typename real, typename grad>
static __global__ AT_ONCE(THREADS, BLOCKS) void adamw_kernel(float *w, float *m, float *v,
                                                             real *copy, const grad *g, table t,
                                                             factors f) {
    const float decay = f.decay;
    for (unsigned c = blockIdx.x; c < t.first[t.count]; c += gridDim.x) {
        int p = 0;
        while (c >= t.first[p + 1]) p++;
        size_t begin = (size_t)(c - t.first[p]) * CHUNK, left = t.n[p] - begin,
               at = t.at[p] + begin;
        unsigned n = left < CHUNK ? (unsigned)left : CHUNK, fours = VECTOR ? n / 4 : 0;
        f.decay = t.decays[p] ? decay : 0.0f;
        for (unsigned k = threadIdx.x; k < fours; k += THREADS) {
            size_t i = at + 4 * k;
            four a = load4(w + i), b = load4(m + i), d = load4(v + i), slope = load4(g + i);
            for (int j = 0; j < 4; j++) update(&a.at[j], &b.at[j], &d.at[j], slope.at[j], &f);
            store4(w + i, a);
            if (copied<real>()) store4(copy + i, a);
            store4(m + i, b);
            store4(v + i, d);
        }
        for (size_t i = at + 4 * fours + threadIdx.x; i < at + n; i += THREADS) {
            update(w + i, m + i, v + i, load(g + i), &f);
            if (copied<real>()) store(copy + i, w[i]);
        }
    }
}

static factors factors_of(const adamw_args *args) {
    /* Differences from 1 are computed in double and then rounded. */
    double b1 = (double)args->beta1, b2 = (double)args->beta2, step = (double)args->step;
    return {args->lr,
            args->beta1,
            args->beta2,
            args->eps,
            args->decay,
            args->scale,
            (float)(1.0 - b1),
            (float)(1.0 - b2),
            (float)(1.0 / (1.0 - pow(b1, step))),
            (float)(1.0 / (1.0 - pow(b2, step)))};
}

/* Empty parts are left out. */
static table table_of(const ops_part *parts, int count) {
    table t = {};
    for (int i = 0; i < count; i++) {
        if (parts[i].n == 0) continue;
        t.at[t.count] = parts[i].at, t.n[t.count] = parts[i].n;
        t.decays[t.count] = parts[i].decays;
        t.first[t.count + 1] = t.first[t.count] + (unsigned)cuda_ceil(parts[i].n, CHUNK);
        t.count++;
    }
    return t;
}

template <typename real, typename grad>
static trine_status adamw(device *d, float *w, float *m, float *v, void *copy_, const void *g_,
                          const ops_part *parts, int count, const adamw_args *args) {
    real *copy = (real *)copy_;
    const grad *g = (const grad *)g_;
    bool aligned = cuda_aligned(w) && cuda_aligned(m) && cuda_aligned(v) && cuda_aligned(g) &&
                   (!copied<real>() || cuda_aligned(copy));
    if (count > OPS_PARTS)
        return RAISE(TRINE_EMATH, "adamw: %d parts; at most %d are allowed", count, OPS_PARTS);
    for (int i = 0; i < count; i++) aligned = aligned && parts[i].at % 4 == 0;
    table t = table_of(parts, count);
    if (t.count == 0) return TRINE_OK;
    auto kernel = aligned ? adamw_kernel<true, real, grad> : adamw_kernel<false, real, grad>;
    unsigned grid = cuda_grid(d, t.first[t.count], BLOCKS);
    LAUNCH(d, kernel, grid, THREADS, 0)(w, m, v, copy, g, t, factors_of(args));
    return LAUNCHED(adamw_kernel);
}

CUDA_OF_BOTH(adamw);
