#include "device/cuda/kernel.cuh"

/* ---- y = (y + bias) + residual --------------------------------------------------------------- */

#define BLOCKS 8 /* of a multiprocessor, at once */

/* A thread keeps its four columns' bias and goes down the rows. */
template <bool VECTOR>
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

trine_status cuda_bias_residual(device *d, void *y, const void *bias, const void *residual,
                                size_t T, size_t N) {
    if (T == 0 || N == 0 || (!bias && !residual)) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, N, BLOCKS);
    bool vector = N % 4 == 0 && cuda_aligned(y) && cuda_aligned(bias) && cuda_aligned(residual);
    auto kernel = vector ? bias_residual_kernel<true> : bias_residual_kernel<false>;
    LAUNCH(d, kernel, p.grid, p.block, 0)
    ((real *)y, (const real *)bias, (const real *)residual, T, N);
    return LAUNCHED(bias_residual_kernel);
}

trine_status cuda_dropout_residual(device *d, void *y, const void *bias, const void *residual,
                                   const dropout_args *drop, size_t T, size_t N) {
    (void)d, (void)y, (void)bias, (void)residual, (void)drop, (void)T, (void)N;
    return RAISE(TRINE_EUNSUPPORTED, "dropout on the cuda device");
}

trine_status cuda_dropout(device *d, void *y, const void *x, const dropout_args *drop, size_t T,
                          size_t N) {
    (void)d, (void)y, (void)x, (void)drop, (void)T, (void)N;
    return RAISE(TRINE_EUNSUPPORTED, "dropout on the cuda device");
}

/* ---- Column sums ----------------------------------------------------------------------------- */

/* Rows that a thread has in flight. */
#define AHEAD 8

/* pieces (gridDim.y, N): piece p is the sum, ascending, of `rows` rows from p * rows on. */
template <bool VECTOR>
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

trine_status cuda_bias_backward(device *d, void *dbias_, const void *dy, size_t T, size_t N,
                                grad_mode mode) {
    float *dbias = (float *)dbias_;
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
        auto kernel = vector ? bias_backward_kernel<true> : bias_backward_kernel<false>;
        LAUNCH(d, kernel, grid, p.block, 0)(pieces, (const real *)dy, T, N, cut.rows);
        TRY(LAUNCHED(bias_backward_kernel));
    }
    return cuda_sum_pieces(d, dbias, NULL, pieces, cut.count, N, N, mode);
}
