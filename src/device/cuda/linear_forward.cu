#include "device/cuda/matmul.h"

/* The library refuses empty matrices. */
trine_status cuda_linear_forward(device *d, void *y, const void *w, const void *bias, const void *x,
                                 size_t T, size_t N, size_t K) {
    if (T == 0 || N == 0) return TRINE_OK;
    if (K > 0) return cuda_matmul(d, MATMUL_Y, y, x, w, bias, T, N, K, GRAD_SET);
    TRY_CUDA(cudaMemsetAsync(y, 0, T * N * sizeof(float), cuda_of(d)->compute));
    return bias ? cuda_bias_residual(d, y, bias, NULL, T, N) : TRINE_OK;
}
