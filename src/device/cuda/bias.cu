#include "device/cuda/kernel.cuh"

/* ---- y = (y + bias) + residual --------------------------------------------------------------- */

#define BLOCKS 8 /* of a multiprocessor, at once */

/* A thread keeps its four columns' bias and goes down the rows. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, BLOCKS) void bias_residual_kernel(real *y, const real *bias,
                                                                   const real *residual, size_t T,
                                                                   size_t N) {
    size_t n = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    four add = {};
    if (bias) add = load_row<VECTOR>(bias, n, N);
    for (size_t t = blockIdx.y; t < T; t += gridDim.y) {
        four out = load_row<VECTOR>(y + t * N, n, N), rest = {};
        if (residual) rest = load_row<VECTOR>(residual + t * N, n, N);
        if (bias)
            for (int j = 0; j < 4; j++) out.at[j] += add.at[j];
        if (residual)
            for (int j = 0; j < 4; j++) out.at[j] += rest.at[j];
        store_row<VECTOR>(y + t * N, n, N, out);
    }
}

template <typename real>
static trine_status bias_residual(device *d, void *y_, const void *bias_, const void *residual_,
                                  size_t T, size_t N) {
    real *y = (real *)y_;
    const real *bias = (const real *)bias_, *residual = (const real *)residual_;
    if (T == 0 || N == 0 || (!bias && !residual)) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, N, BLOCKS);
    bool vector = N % 4 == 0 && cuda_aligned(y) && cuda_aligned(bias) && cuda_aligned(residual);
    auto kernel = vector ? bias_residual_kernel<true, real> : bias_residual_kernel<false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(y, bias, residual, T, N);
    return LAUNCHED(bias_residual_kernel);
}

CUDA_OF_COMPUTE(bias_residual);

/* ---- Column sums ----------------------------------------------------------------------------- */

/* Rows that a thread has in flight. */
#define AHEAD 8

/* pieces (gridDim.y, N): piece p is the sum, ascending, of `rows` rows from p * rows on. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, 4) void bias_backward_kernel(float *pieces, const real *dy,
                                                              size_t T, size_t N, size_t rows) {
    size_t n = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    size_t begin = blockIdx.y * rows, end = begin + rows < T ? begin + rows : T;
    four sum = {};
    for (size_t t = begin; t < end; t += AHEAD) {
        four x[AHEAD];
        for (int u = 0; u < AHEAD; u++)
            x[u] = load_row<VECTOR>(dy + (t + u) * N, n, t + u < end ? N : 0);
        for (int u = 0; u < AHEAD; u++)
            for (int j = 0; j < 4; j++) sum.at[j] += x[u].at[j];
    }
    store_row<VECTOR>(pieces + blockIdx.y * N, n, N, sum);
}

template <typename real, typename grad>
static trine_status bias_backward(device *d, void *dbias, const void *dy_, size_t T, size_t N,
                                  grad_mode mode) {
    const real *dy = (const real *)dy_;
    grad *none = NULL;
    if (N == 0) return TRINE_OK;
    float *pieces = cuda_of(d)->scratch;
    cuda_cut cut = T ? cuda_cut_of(T, N) : cuda_cut{0, 0};
    CHECK(cut.count <= CUDA_SCRATCH / N, TRINE_EUNSUPPORTED,
          "column sums of a matrix of %zu columns; the cuda device has scratch for %zu", N,
          CUDA_SCRATCH);
    if (T > 0) {
        cuda_plane p = cuda_plane_of(d, 1, N, BLOCKS);
        dim3 grid(p.grid.x, (unsigned)cut.count);
        bool vector = N % 4 == 0 && cuda_aligned(dy);
        auto kernel = vector ? bias_backward_kernel<true, real> : bias_backward_kernel<false, real>;
        LAUNCH(d, kernel, grid, p.block, 0)(pieces, dy, T, N, cut.rows);
        TRY(LAUNCHED(bias_backward_kernel));
    }
    return cuda_sum_pieces(d, (grad *)dbias, none, pieces, cut.count, N, N, mode);
}

CUDA_OF_BOTH(bias_backward);
