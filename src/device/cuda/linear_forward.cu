#include "device/cuda/matmul.h"

/* What a bias needs to be added in the product's own kernel: the library promises nothing for
 * less. A bias that is added by a kernel of its own comes after a 16-bit product was rounded. */
#define BIAS_ALIGNED 16

/* The library refuses empty matrices. */
static trine_status linear_forward(device *d, void *y, const void *w, const void *bias,
                                   const void *x, size_t T, size_t N, size_t K) {
    if (T == 0 || N == 0) return TRINE_OK;
    const bool fused = K > 0 && (uintptr_t)bias % BIAS_ALIGNED == 0;
    if (K > 0)
        TRY(cuda_matmul(d, MATMUL_Y, y, x, w, fused ? bias : NULL, T, N, K, GRAD_SET));
    else
        TRY_CUDA(cudaMemsetAsync(y, 0, T * N * cuda_bytes(d->compute), cuda_of(d)->compute));
    return bias && !fused ? d->ops->bias_residual(d, y, bias, NULL, T, N) : TRINE_OK;
}

CUDA_OF_ALL(linear_forward);
