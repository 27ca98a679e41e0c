#include "device/cuda/matmul.h"

/* The alignment that a bias needs to be added in the matmul kernel; the library guarantees nothing for less. */
#define BIAS_ALIGNED 16

/* A 16-bit product must not be rounded before its bias is added. A bias that is not aligned is copied to scratch,
 * where the matmul kernel can add it. */
static trine_status align(device *d, const void **bias, size_t N) {
    const size_t bytes = N * cuda_bytes(d->compute);
    CHECK(
        bytes <= CUDA_SCRATCH * sizeof(float), TRINE_EUNSUPPORTED,
        "linear_forward: the bias of %zu elements is not aligned to %d bytes and too large to copy",
        N, BIAS_ALIGNED);
    TRY_CUDA(cudaMemcpyAsync(cuda_of(d)->scratch, *bias, bytes, cudaMemcpyDeviceToDevice,
                             cuda_of(d)->compute));
    *bias = cuda_of(d)->scratch;
    return TRINE_OK;
}

static trine_status add_up(device *d, void *y, const void *w, const void *bias,
                           const void *residual, const void *x, size_t T, size_t N, size_t K) {
    if ((uintptr_t)bias % BIAS_ALIGNED != 0 && d->compute != TRINE_F32) TRY(align(d, &bias, N));
    const bool fused = (uintptr_t)bias % BIAS_ALIGNED == 0;
    TRY(cuda_matmul(d, MATMUL_Y, y, x, w, fused ? bias : NULL, residual, T, N, K));
    return fused ? TRINE_OK : d->ops->bias_residual(d, y, bias, NULL, T, N);
}

/* cuBLASLt does not accept empty matrices. */
static trine_status linear_residual(device *d, void *y, const void *w, const void *bias,
                                    const void *residual, const void *x, size_t T, size_t N,
                                    size_t K) {
    if (T == 0 || N == 0) return TRINE_OK;
    if (K > 0) return add_up(d, y, w, bias, residual, x, T, N, K);
    TRY_CUDA(cudaMemsetAsync(y, 0, T * N * cuda_bytes(d->compute), cuda_of(d)->compute));
    return d->ops->bias_residual(d, y, bias, residual, T, N);
}

CUDA_OF_ALL(linear_residual);

static trine_status linear_forward(device *d, void *y, const void *w, const void *bias,
                                   const void *x, size_t T, size_t N, size_t K) {
    return linear_residual(d, y, w, bias, NULL, x, T, N, K);
}

CUDA_OF_ALL(linear_forward);
