#include "device/cuda/kernel.cuh"

#define THREADS 256
#define BLOCKS  8 /* of a multiprocessor, at once */

template <typename grad>
static __global__ AT_ONCE(THREADS, BLOCKS) void add_kernel(grad *y, const grad *x, size_t n,
                                                           size_t fours) {
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, step = (size_t)gridDim.x * THREADS;
    for (size_t k = first; k < fours; k += step) {
        four a = load4(y + 4 * k), b = load4(x + 4 * k);
        for (int j = 0; j < 4; j++) a.at[j] += b.at[j];
        store4(y + 4 * k, a);
    }
    for (size_t i = 4 * fours + first; i < n; i += step) store(y + i, load(y + i) + load(x + i));
}

template <typename grad> static trine_status add(device *d, void *y_, const void *x_, size_t n) {
    grad *y = (grad *)y_;
    const grad *x = (const grad *)x_;
    if (n == 0) return TRINE_OK;
    size_t fours = cuda_aligned(y) && cuda_aligned(x) ? n / 4 : 0;
    unsigned grid = cuda_grid(d, cuda_ceil(fours ? fours : n, THREADS), BLOCKS);
    LAUNCH(d, add_kernel<grad>, grid, THREADS, 0)(y, x, n, fours);
    return LAUNCHED(add_kernel);
}

CUDA_OF_GRADS(add);
