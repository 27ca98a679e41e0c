/* Sums of addends by a tree: a thread has four elements, or one, and adds in registers. The addends are one stream
 * each, so a launch reads every byte once. */
#include "device/cuda/kernel.cuh"

#define THREADS 256
#define BLOCKS  4 /* of a multiprocessor, at once */
#define LEVELS  8 /* of a tree: up to 2^LEVELS - 1 addends */

/* The addends so far, `count` of them, as sums of complete trees: level[k] is that of 2^k addends if bit k of count
 * is set. An addend completes the trees that a carry passes. Constant indices: the levels are registers. */
static inline __device__ void push(four level[LEVELS], size_t count, four x) {
#pragma unroll
    for (int k = 0; k < LEVELS; k++) {
        if (!(count >> k & 1)) {
            level[k] = x;
            break;
        }
        x = plus(level[k], x);
    }
}

/* The sum of these trees, from the smallest, which has the last addends. count is at least 1. */
static inline __device__ four total(const four level[LEVELS], size_t count) {
    four sum = {};
    bool some = false;
#pragma unroll
    for (int k = 0; k < LEVELS; k++)
        if (count >> k & 1) {
            sum = some ? plus(level[k], sum) : level[k];
            some = true;
        }
    return sum;
}

/* VECTOR: four elements are one load, at every addend and in y. */
template <bool VECTOR, typename out, typename in>
static __global__ AT_ONCE(THREADS, BLOCKS) void sum_parts_kernel(out *y, const in *x, size_t parts,
                                                                 size_t stride, size_t n) {
    size_t step = 4 * (size_t)gridDim.x * THREADS;
    for (size_t i = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x); i < n; i += step) {
        four level[LEVELS];
        for (size_t p = 0; p < parts; p++) push(level, p, load_row<VECTOR>(x + p * stride, i, n));
        store_row<VECTOR>(y, i, n, total(level, parts));
    }
}

template <typename out, typename in>
static trine_status run(device *d, void *y_, const void *x_, size_t parts, size_t stride,
                        size_t n) {
    out *y = (out *)y_;
    const in *x = (const in *)x_;
    const bool vector = cuda_aligned(y) && cuda_aligned(x) && stride % 4 == 0 && n % 4 == 0;
    if (parts >> LEVELS)
        return RAISE(TRINE_EUNSUPPORTED, "sum_parts: %zu parts; at most %d are allowed", parts,
                     (1 << LEVELS) - 1);
    if (n == 0) return TRINE_OK;
    auto kernel = vector ? sum_parts_kernel<true, out, in> : sum_parts_kernel<false, out, in>;
    unsigned grid = cuda_grid(d, cuda_ceil(n, 4 * THREADS), BLOCKS);
    LAUNCH(d, kernel, grid, THREADS, 0)(y, x, parts, stride, n);
    return LAUNCHED(sum_parts_kernel);
}

template <typename real>
static trine_status sum_parts(device *d, void *y, bool y_wide, const void *x, bool x_wide,
                              size_t parts, size_t stride, size_t n) {
    if (y_wide)
        return x_wide ? run<float, float>(d, y, x, parts, stride, n)
                      : run<float, real>(d, y, x, parts, stride, n);
    return x_wide ? run<real, float>(d, y, x, parts, stride, n)
                  : run<real, real>(d, y, x, parts, stride, n);
}

CUDA_OF_COMPUTE(sum_parts);
