#include "device/cuda/kernel.cuh"

/* ---- x += rows of the table ------------------------------------------------------------------ */

#define BLOCKS 8 /* of a multiprocessor, at once */

template <bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, BLOCKS) void position_forward_kernel(real *x, const real *table,
                                                                      const int32_t *starts,
                                                                      size_t first, size_t rows,
                                                                      size_t T, size_t C) {
    size_t c = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t i = blockIdx.y; i < rows; i += gridDim.y) {
        four out = load_row<VECTOR>(x + i * C, c, C);
        four add = load_row<VECTOR>(table + document_position(starts, first + i, T) * C, c, C);
        for (int j = 0; j < 4; j++) out.at[j] += add.at[j];
        store_row<VECTOR>(x + i * C, c, C, out);
    }
}

/* Complete samples of one document are processed as rows of T C elements with the same addend, which threads keep in
 * registers. */
template <typename real>
static trine_status position_forward(device *d, void *x_, const void *table_, const int32_t *starts,
                                     size_t first, size_t rows, size_t T, size_t C) {
    real *x = (real *)x_;
    const real *table = (const real *)table_;
    if (rows == 0 || T == 0 || C == 0) return TRINE_OK;
    if (!starts && first % T == 0 && rows % T == 0)
        return d->ops->bias_residual(d, x, table, NULL, rows / T, T * C);
    cuda_plane p = cuda_plane_of(d, rows, C, BLOCKS);
    bool vector = C % 4 == 0 && cuda_aligned(x) && cuda_aligned(table);
    auto kernel =
        vector ? position_forward_kernel<true, real> : position_forward_kernel<false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(x, table, starts, first, rows, T, C);
    return LAUNCHED(position_forward_kernel);
}

CUDA_OF_COMPUTE(position_forward);

/* ---- Gradients of the table ------------------------------------------------------------------ */

/* Rows that a thread has in flight. */
#define AHEAD 4

/* The first of rows [row, end) that has position t, as document_next of device/documents.h. */
static inline __device__ size_t position_next(const int32_t *starts, size_t t, size_t row,
                                              size_t end, size_t T) {
    for (size_t at = row % T, step; row < end; row += step) {
        const size_t p = at - (starts ? (size_t)starts[row] : 0);
        if (p == t) return row;
        step = p < t ? t - p : starts ? t + 1 : T - p + t;
        at += step;
        if (at >= T) at -= T;
    }
    return end;
}

/* dx starts at row `first` of the micro-batch. */
template <bool VECTOR, typename real, typename grad>
static __global__ AT_ONCE(PLANE, 4) void position_backward_kernel(grad *dtable, const real *dx,
                                                                  const int32_t *starts,
                                                                  size_t first, size_t rows,
                                                                  size_t T, size_t C, bool add) {
    const size_t end = first + rows;
    size_t c = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t t = blockIdx.y; t < T; t += gridDim.y) {
        four sum = {};
        if (add) sum = load_row<VECTOR>(dtable + t * C, c, C);
        for (size_t i = position_next(starts, t, first, end, T); i < end;) {
            four x[AHEAD];
            for (int u = 0; u < AHEAD; u++) {
                x[u] = load_row<VECTOR>(dx + (i - first) * C, c, i < end ? C : 0);
                i = starts ? position_next(starts, t, i + 1, end, T) : i + T;
            }
            for (int u = 0; u < AHEAD; u++)
                for (int j = 0; j < 4; j++) sum.at[j] += x[u].at[j];
        }
        store_row<VECTOR>(dtable + t * C, c, C, sum);
    }
}

template <typename real, typename grad>
static trine_status position_backward(device *d, void *dtable_, const void *dx_,
                                      const int32_t *starts, size_t first, size_t rows, size_t T,
                                      size_t C, grad_mode mode) {
    grad *dtable = (grad *)dtable_;
    const real *dx = (const real *)dx_;
    if (T == 0 || C == 0) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, C, 4);
    bool vector = C % 4 == 0 && cuda_aligned(dtable) && cuda_aligned(dx);
    auto kernel = vector ? position_backward_kernel<true, real, grad>
                         : position_backward_kernel<false, real, grad>;
    LAUNCH(d, kernel, p.grid, p.block, 0)
    (dtable, dx, starts, first, rows, T, C, mode == GRAD_ADD);
    return LAUNCHED(position_backward_kernel);
}

CUDA_OF_BOTH(position_backward);
