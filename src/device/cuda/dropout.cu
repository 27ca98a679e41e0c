/* The mask is computed where it is used and never stored: a thread has four neighbouring elements, one
 * Philox block, in every row that it processes (two blocks if the row length is not a multiple of four).
 * That is some 100 integer instructions per four elements, besides 24 bytes of traffic in fp32 or 12 in
 * 16 bits: on an H200 bandwidth allows twice as many instructions in fp32; in 16 bits the words take as
 * long as the memory traffic. */
#include "device/cuda/dropout.cuh"

#define BLOCKS 6 /* of a multiprocessor, at once */

/* A row of the call: its sample, and its first element within the sample. */
static inline __device__ void row_of(const cuda_drop *drop, size_t t, size_t N, uint64_t *sample,
                                     uint64_t *element) {
    uint64_t row = drop->first + t;
    *sample = drop->sample + row / drop->T;
    *element = row % drop->T * (drop->width ? drop->width : N) + drop->column;
}

/* y = dropout(x + bias) + residual; bias and residual may be NULL, and y may be x. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, BLOCKS) void dropout_kernel(real *y, const real *x,
                                                             const real *bias, const real *residual,
                                                             cuda_drop drop, size_t T, size_t N) {
    size_t n = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    four add = {};
    if (bias) add = load_row<VECTOR>(bias, n, N);
    for (size_t t = blockIdx.y; t < T; t += gridDim.y) {
        uint64_t sample, element;
        row_of(&drop, t, N, &sample, &element);
        four out = load_row<VECTOR>(x + t * N, n, N), rest = {};
        if (residual) rest = load_row<VECTOR>(residual + t * N, n, N);
        four factors = cuda_drop_four(&drop, sample, element + n);
        for (int j = 0; j < 4; j++) {
            if (bias) out.at[j] += add.at[j];
            out.at[j] *= factors.at[j];
            if (residual) out.at[j] += rest.at[j];
        }
        store_row<VECTOR>(y + t * N, n, N, out);
    }
}

template <typename real>
static trine_status launch(device *d, real *y, const real *x, const real *bias,
                           const real *residual, const dropout_args *drop, size_t T, size_t N) {
    if (T == 0 || N == 0) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, N, BLOCKS);
    bool vector = N % 4 == 0 && cuda_aligned(y) && cuda_aligned(x) && cuda_aligned(bias) &&
                  cuda_aligned(residual);
    auto kernel = vector ? dropout_kernel<true, real> : dropout_kernel<false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(y, x, bias, residual, cuda_drop_of(drop), T, N);
    return LAUNCHED(dropout_kernel);
}

template <typename real>
static trine_status dropout_residual(device *d, void *y, const void *bias, const void *residual,
                                     const dropout_args *drop, size_t T, size_t N) {
    return launch(d, (real *)y, (const real *)y, (const real *)bias, (const real *)residual, drop,
                  T, N);
}

template <typename real>
static trine_status dropout(device *d, void *y, const void *x, const dropout_args *drop, size_t T,
                            size_t N) {
    const real *none = NULL;
    return launch(d, (real *)y, (const real *)x, none, none, drop, T, N);
}

CUDA_OF_COMPUTE(dropout_residual);
CUDA_OF_COMPUTE(dropout);
