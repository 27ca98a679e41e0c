/* Some columns of a matrix and a dense matrix of as many: rows of low-rank adapters (tp/adapter.h). */
#include "device/cuda/kernel.cuh"

#define BLOCKS 8 /* of a multiprocessor, at once */

/* wide (T, N) at column `at`, dense (T, n): a sum into wide if ADD, else dense = scale * wide. */
template <bool ADD, bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, BLOCKS) void columns_kernel(real *to, const real *from,
                                                             float scale, size_t T, size_t N,
                                                             size_t at, size_t n) {
    size_t c = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t t = blockIdx.y; t < T; t += gridDim.y) {
        real *y = to + (ADD ? t * N + at : t * n);
        four out = load_row<VECTOR>(from + (ADD ? t * n : t * N + at), c, n), old = {};
        if (ADD) old = load_row<VECTOR>(y, c, n);
        for (int j = 0; j < 4; j++) out.at[j] = old.at[j] + scale * out.at[j];
        store_row<VECTOR>(y, c, n, out);
    }
}

template <bool ADD, typename real>
static trine_status launch(device *d, real *to, const real *from, float scale, size_t T, size_t N,
                           size_t at, size_t n) {
    if (T == 0 || n == 0) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, n, BLOCKS);
    bool vector = N % 4 == 0 && at % 4 == 0 && n % 4 == 0 && cuda_aligned(to) && cuda_aligned(from);
    auto kernel = vector ? columns_kernel<ADD, true, real> : columns_kernel<ADD, false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(to, from, scale, T, N, at, n);
    return LAUNCHED(columns_kernel);
}

template <typename real>
static trine_status columns_add(device *d, void *y, const void *x, float scale, size_t T, size_t N,
                                size_t at, size_t n) {
    return launch<true>(d, (real *)y, (const real *)x, scale, T, N, at, n);
}

template <typename real>
static trine_status columns_take(device *d, void *y, const void *x, float scale, size_t T, size_t N,
                                 size_t at, size_t n) {
    return launch<false>(d, (real *)y, (const real *)x, scale, T, N, at, n);
}

CUDA_OF_COMPUTE(columns_add);
CUDA_OF_COMPUTE(columns_take);
