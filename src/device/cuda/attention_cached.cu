/* Attention with a cache of keys and values: a thread block for each new row and query head. It processes the
 * positions THREADS at a time: each thread computes a score (the keys of neighbouring threads are
 * contiguous); then the softmax so far is rescaled and the values of these positions are added, one or two
 * columns per thread (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). Every
 * row reads the complete cache of its head, so a long prompt costs more than with attention_forward; a
 * single row, the common case, reads each number once. */
#include <math.h>

#include "device/cuda/kernel.cuh"
#include "device/cuda/sizes.h"

#define THREADS 128
#define COLUMNS (CUDA_WIDEST_HEAD / THREADS) /* of the values, a thread's */

/* Sizes and operands of attention_cached. */
template <typename real> struct cached {
    real *y, *keys, *values;
    const real *qkv;
    size_t past, M, H, K, D;
};

template <typename real> static __global__ void keep_kernel(cached<real> c) {
    size_t r = blockIdx.x / c.K, kv = blockIdx.x % c.K;
    const real *k = c.qkv + (r * (c.H + 2 * c.K) + c.H + kv) * c.D, *v = k + c.K * c.D;
    for (size_t i = threadIdx.x; i < c.D; i += THREADS) {
        c.keys[(kv * c.D + i) * c.M + c.past + r] = k[i];
        c.values[(kv * c.M + c.past + r) * c.D + i] = v[i];
    }
}

/* Maximum or sum over the thread block in a fixed order; `area` has a float for each warp. All threads get it.
 * The maximum ignores a NaN, which appears in the sum. */
static __device__ inline float block_max(float x, float *area) {
    for (int k = WARP / 2; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, k));
    __syncthreads();
    if (threadIdx.x % WARP == 0) area[threadIdx.x / WARP] = x;
    __syncthreads();
    x = area[0];
    for (int w = 1; w < THREADS / WARP; w++) x = fmaxf(x, area[w]);
    return x;
}

static __device__ inline float block_total(float x, float *area) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0) area[threadIdx.x / WARP] = x;
    __syncthreads();
    x = area[0];
    for (int w = 1; w < THREADS / WARP; w++) x += area[w];
    return x;
}

template <typename real>
static __global__ void __launch_bounds__(THREADS) attend_kernel(cached<real> c, float scale) {
    __shared__ float q[CUDA_WIDEST_HEAD], p[THREADS], area[THREADS / WARP];
    size_t r = blockIdx.x / c.H, h = blockIdx.x % c.H, kv = h / (c.H / c.K), end = c.past + r + 1;
    const real *keys = c.keys + kv * c.D * c.M, *values = c.values + kv * c.M * c.D;
    float out[COLUMNS] = {}, max = -INFINITY, sum = 0.0f;
    for (size_t i = threadIdx.x; i < c.D; i += THREADS)
        q[i] = load(c.qkv + (r * (c.H + 2 * c.K) + h) * c.D + i) * scale;
    __syncthreads();
    for (size_t first = 0; first < end; first += THREADS) {
        size_t s = first + threadIdx.x, last = end - first < THREADS ? end - first : THREADS;
        float score = 0.0f;
        for (size_t i = 0; s < end && i < c.D; i++)
            score = fmaf(q[i], load(keys + i * c.M + s), score);
        float most = fmaxf(max, block_max(s < end ? score : -INFINITY, area));
        /* If all scores so far were -infinity there is nothing to rescale. */
        float factor = max == most ? 1.0f : expf(max - most),
              e = s < end ? expf(score - most) : 0.0f;
        sum = sum * factor + block_total(e, area);
        p[threadIdx.x] = e;
        __syncthreads();
        for (int j = 0; j < COLUMNS; j++) {
            size_t i = threadIdx.x + (size_t)j * THREADS;
            out[j] *= factor;
            for (size_t n = 0; i < c.D && n < last; n++)
                out[j] = fmaf(p[n], load(values + (first + n) * c.D + i), out[j]);
        }
        max = most;
        __syncthreads();
    }
    for (int j = 0; j < COLUMNS; j++) {
        size_t i = threadIdx.x + (size_t)j * THREADS;
        if (i < c.D) store(c.y + (r * c.H + h) * c.D + i, out[j] / sum);
    }
}

template <typename real>
static trine_status attention_cached(device *d, void *y, void *keys, void *values, const void *qkv,
                                     void *work, size_t past, size_t n, size_t M, size_t H,
                                     size_t K, size_t D) {
    (void)work;
    if (n == 0 || H == 0 || D == 0) return TRINE_OK;
    CHECK(D <= CUDA_WIDEST_HEAD, TRINE_EUNSUPPORTED,
          "attention: head width %zu is not supported; the cuda device supports up to %d", D,
          CUDA_WIDEST_HEAD);
    CHECK(n <= 0x7fffffff / H, TRINE_EMATH,
          "attention: n %zu, H %zu need more thread blocks than a CUDA grid can have", n, H);
    const cached<real> c = {
        (real *)y, (real *)keys, (real *)values, (const real *)qkv, past, M, H, K, D};
    LAUNCH(d, keep_kernel<real>, (unsigned)(n * K), THREADS, 0)(c);
    TRY(LAUNCHED(keep_kernel));
    LAUNCH(d, attend_kernel<real>, (unsigned)(n * H), THREADS, 0)(c, 1.0f / sqrtf((float)D));
    return LAUNCHED(attend_kernel);
}

CUDA_OF_COMPUTE(attention_cached);
