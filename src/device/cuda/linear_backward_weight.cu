#include "device/cuda/matmul.h"

/* dbias is computed in a separate pass. The library's epilogue for it (BGRADB) can only store, not add, so it could
 * be used in the first micro-batch of a step only, whose sums would then have another order than the others. */
static trine_status linear_backward_weight(device *d, void *dw, void *dbias, const void *dy,
                                           const void *x, size_t T, size_t N, size_t K,
                                           grad_mode mode) {
    const void *addend = mode == GRAD_ADD ? dw : NULL;
    if (T > 0 && N > 0 && K > 0) TRY(cuda_matmul(d, MATMUL_DW, dw, dy, x, NULL, addend, T, N, K));
    if (T == 0 && N * K > 0 && mode == GRAD_SET)
        TRY_CUDA(cudaMemsetAsync(dw, 0, N * K * cuda_bytes(d->grads), cuda_of(d)->compute));
    return dbias ? d->ops->bias_backward(d, dbias, dy, T, N, mode) : TRINE_OK;
}

CUDA_OF_ALL(linear_backward_weight);
