#include "device/cuda/kernel.cuh"

/* ---- x += rows of the table ------------------------------------------------------------------ */

#define BLOCKS 8 /* of a multiprocessor, at once */

template <bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, BLOCKS) void position_forward_kernel(real *x, const real *table,
                                                                      size_t first, size_t rows,
                                                                      size_t T, size_t C) {
    size_t c = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t i = blockIdx.y; i < rows; i += gridDim.y) {
        four out = load_row<VECTOR>(x + i * C, c, C);
        four add = load_row<VECTOR>(table + (first + i) % T * C, c, C);
        for (int j = 0; j < 4; j++) out.at[j] += add.at[j];
        store_row<VECTOR>(x + i * C, c, C, out);
    }
}

/* Complete samples are processed as rows of T C elements with the same addend, which threads keep in registers. */
template <typename real>
static trine_status position_forward(device *d, void *x_, const void *table_, size_t first,
                                     size_t rows, size_t T, size_t C) {
    real *x = (real *)x_;
    const real *table = (const real *)table_;
    if (rows == 0 || T == 0 || C == 0) return TRINE_OK;
    if (first % T == 0 && rows % T == 0)
        return d->ops->bias_residual(d, x, table, NULL, rows / T, T * C);
    cuda_plane p = cuda_plane_of(d, rows, C, BLOCKS);
    bool vector = C % 4 == 0 && cuda_aligned(x) && cuda_aligned(table);
    auto kernel =
        vector ? position_forward_kernel<true, real> : position_forward_kernel<false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(x, table, first % T, rows, T, C);
    return LAUNCHED(position_forward_kernel);
}

CUDA_OF_COMPUTE(position_forward);

/* ---- Gradients of the table ------------------------------------------------------------------ */

/* Rows that a thread has in flight. */
#define AHEAD 4

/* Rows skip, skip + T, ... of dx have position 0, those before it the last `skip` positions. */
template <bool VECTOR, typename real, typename grad>
static __global__ AT_ONCE(PLANE, 4) void position_backward_kernel(grad *dtable, const real *dx,
                                                                  size_t skip, size_t rows,
                                                                  size_t T, size_t C, bool add) {
    size_t c = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t t = blockIdx.y; t < T; t += gridDim.y) {
        four sum = {};
        if (add) sum = load_row<VECTOR>(dtable + t * C, c, C);
        for (size_t i = t + skip < T ? t + skip : t + skip - T; i < rows; i += AHEAD * T) {
            four x[AHEAD];
            for (int u = 0; u < AHEAD; u++)
                x[u] = load_row<VECTOR>(dx + (i + u * T) * C, c, i + u * T < rows ? C : 0);
            for (int u = 0; u < AHEAD; u++)
                for (int j = 0; j < 4; j++) sum.at[j] += x[u].at[j];
        }
        store_row<VECTOR>(dtable + t * C, c, C, sum);
    }
}

template <typename real, typename grad>
static trine_status position_backward(device *d, void *dtable_, const void *dx_, size_t first,
                                      size_t rows, size_t T, size_t C, grad_mode mode) {
    grad *dtable = (grad *)dtable_;
    const real *dx = (const real *)dx_;
    if (T == 0 || C == 0) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, C, 4);
    bool vector = C % 4 == 0 && cuda_aligned(dtable) && cuda_aligned(dx);
    auto kernel = vector ? position_backward_kernel<true, real, grad>
                         : position_backward_kernel<false, real, grad>;
    LAUNCH(d, kernel, p.grid, p.block, 0)
    (dtable, dx, (T - first % T) % T, rows, T, C, mode == GRAD_ADD);
    return LAUNCHED(position_backward_kernel);
}

CUDA_OF_BOTH(position_backward);
