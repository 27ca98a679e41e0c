#include "device/cuda/kernel.cuh"

/* Adding one row to each of B. */
trine_status cuda_position_forward(device *d, void *x, const void *table, size_t first, size_t rows,
                                   size_t T, size_t C) {
    ASSERT(first == 0 && (T == 0 || rows % T == 0));
    return T ? cuda_bias_residual(d, x, table, NULL, rows / T, T * C) : TRINE_OK;
}

#define THREADS 256
/* Samples that a thread has in flight. */
#define AHEAD 4

template <bool VECTOR>
static __global__ AT_ONCE(THREADS, 4) void position_backward_kernel(float *dtable, const real *dx,
                                                                    size_t B, size_t n, bool add) {
    size_t i = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    four sum = {};
    if (add) sum = load_row<VECTOR>(dtable, i, n);
    for (size_t b = 0; b < B; b += AHEAD) {
        four x[AHEAD];
        for (int u = 0; u < AHEAD; u++)
            x[u] = load_row<VECTOR>(dx + (b + u) * n, i, b + u < B ? n : 0);
        for (int u = 0; u < AHEAD; u++)
            for (int j = 0; j < 4; j++) sum.at[j] += x[u].at[j];
    }
    store_row<VECTOR>(dtable, i, n, sum);
}

trine_status cuda_position_backward(device *d, void *dtable_, const void *dx, size_t first,
                                    size_t rows, size_t T, size_t C, grad_mode mode) {
    float *dtable = (float *)dtable_;
    size_t n = T * C, B = T ? rows / T : 0;
    ASSERT(first == 0 && (T == 0 || rows % T == 0));
    if (n == 0) return TRINE_OK;
    unsigned grid = (unsigned)cuda_ceil(n, 4 * THREADS);
    bool add = mode == GRAD_ADD;
    bool vector = n % 4 == 0 && cuda_aligned(dtable) && cuda_aligned(dx);
    auto kernel = vector ? position_backward_kernel<true> : position_backward_kernel<false>;
    LAUNCH(d, kernel, grid, THREADS, 0)(dtable, (const real *)dx, B, n, add);
    return LAUNCHED(position_backward_kernel);
}
