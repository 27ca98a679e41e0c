#include "device/cuda/kernel.cuh"

#define THREADS 256
#define BLOCKS  8 /* of a multiprocessor, at once */

static __global__ AT_ONCE(THREADS, BLOCKS) void add_kernel(float *y, const float *x, size_t n,
                                                           size_t fours) {
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, step = (size_t)gridDim.x * THREADS;
    for (size_t k = first; k < fours; k += step) {
        four a = load4(y + 4 * k), b = load4(x + 4 * k);
        for (int j = 0; j < 4; j++) a.at[j] += b.at[j];
        store4(y + 4 * k, a);
    }
    for (size_t i = 4 * fours + first; i < n; i += step) y[i] += x[i];
}

trine_status cuda_add(device *d, void *y_, const void *x_, size_t n) {
    float *y = (float *)y_;
    const float *x = (const float *)x_;
    if (n == 0) return TRINE_OK;
    size_t fours = cuda_aligned(y) && cuda_aligned(x) ? n / 4 : 0;
    unsigned grid = cuda_grid(d, cuda_ceil(fours ? fours : n, THREADS), BLOCKS);
    LAUNCH(d, add_kernel, grid, THREADS, 0)(y, x, n, fours);
    return LAUNCHED(add_kernel);
}
