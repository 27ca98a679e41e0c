#include "device/cuda/kernel.cuh"

/* ---- y = (y + bias) + residual --------------------------------------------------------------- */

#define BLOCKS 8 /* of a multiprocessor, at once */

/* A thread keeps the bias of its four columns and goes down the rows. */
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

#define SUM_WARPS   8          /* of a block, which share its rows */
#define SUM_COLUMNS (4 * WARP) /* of a block; a lane has four */
#define AHEAD       8          /* rows that a thread has in flight */
#define SUM_ROWS    (SUM_WARPS * AHEAD)
#define SUM_BLOCKS  1024 /* enough for any GPU, four at once on a multiprocessor */

/* A multiple of the rows that the warps of a thread block process at a time, and no more partials than are
 * needed to fill a GPU: they are written and read once more, at most SUM_BLOCKS * SUM_COLUMNS floats
 * unless N is larger. */
static cuda_cut cut_of(size_t T, size_t N) {
    const size_t across = cuda_ceil(N, SUM_COLUMNS);
    const size_t most = across < SUM_BLOCKS ? SUM_BLOCKS / across : 1;
    const size_t rows = cuda_ceil(cuda_ceil(T, most), SUM_ROWS) * SUM_ROWS;
    return {rows, cuda_ceil(T, rows)};
}

/* partials (gridDim.y, N): partial p is the sum of `rows` rows from p * rows on: each warp sums every
 * SUM_WARPS-th row in ascending order, then the sums of the warps are added in ascending order. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(SUM_WARPS *WARP, 4) void bias_backward_kernel(float *partials,
                                                                        const real *dy, size_t T,
                                                                        size_t N, size_t rows) {
    __shared__ float parts[SUM_WARPS][SUM_COLUMNS];
    size_t first = (size_t)blockIdx.x * SUM_COLUMNS, n = first + 4 * threadIdx.x;
    size_t begin = blockIdx.y * rows, end = begin + rows < T ? begin + rows : T;
    four sum = {};
    for (size_t t = begin + threadIdx.y; t < end; t += SUM_ROWS) {
        four x[AHEAD];
        for (int u = 0; u < AHEAD; u++) {
            size_t row = t + u * SUM_WARPS;
            x[u] = load_row<VECTOR>(dy + row * N, n, row < end ? N : 0);
        }
        for (int u = 0; u < AHEAD; u++)
            for (int j = 0; j < 4; j++) sum.at[j] += x[u].at[j];
    }
    for (int j = 0; j < 4; j++) parts[threadIdx.y][4 * threadIdx.x + j] = sum.at[j];
    __syncthreads();
    unsigned column = threadIdx.y * WARP + threadIdx.x;
    if (column >= SUM_COLUMNS || first + column >= N) return;
    float total = parts[0][column];
    for (int w = 1; w < SUM_WARPS; w++) total += parts[w][column];
    partials[blockIdx.y * N + first + column] = total;
}

template <typename real, typename grad>
static trine_status bias_backward(device *d, void *dbias, const void *dy_, size_t T, size_t N,
                                  grad_mode mode) {
    const real *dy = (const real *)dy_;
    grad *none = NULL;
    if (N == 0) return TRINE_OK;
    float *partials = cuda_of(d)->scratch;
    cuda_cut cut = T ? cut_of(T, N) : cuda_cut{0, 0};
    CHECK(cut.count <= CUDA_SCRATCH / N, TRINE_EUNSUPPORTED,
          "bias_backward: %zu columns; the cuda device has scratch for %zu", N, CUDA_SCRATCH);
    if (T > 0) {
        dim3 grid((unsigned)cuda_ceil(N, SUM_COLUMNS), (unsigned)cut.count);
        bool vector = N % 4 == 0 && cuda_aligned(dy);
        auto kernel = vector ? bias_backward_kernel<true, real> : bias_backward_kernel<false, real>;
        LAUNCH(d, kernel, grid, dim3(WARP, SUM_WARPS), 0)(partials, dy, T, N, cut.rows);
        TRY(LAUNCHED(bias_backward_kernel));
    }
    return cuda_sum_partials(d, (grad *)dbias, none, partials, cut.count, N, N, mode);
}

CUDA_OF_BOTH(bias_backward);
