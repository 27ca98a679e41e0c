#include "device/cuda/matmul.h"

/* dbias is a kernel of its own. The library's epilogue for it (BGRADB) stores and cannot add, so it
 * would serve the first micro-batch of a step only, and that one would then add up in another order
 * than the rest. */
trine_status cuda_linear_backward_weight(device *d, void *dw_, void *dbias_, const void *dy,
                                         const void *x, size_t T, size_t N, size_t K,
                                         grad_mode mode) {
    float *dw = (float *)dw_;
    float *dbias = (float *)dbias_;
    if (T > 0 && N > 0 && K > 0) TRY(cuda_matmul(d, MATMUL_DW, dw, dy, x, NULL, T, N, K, mode));
    if (T == 0 && N * K > 0 && mode == GRAD_SET)
        TRY_CUDA(cudaMemsetAsync(dw, 0, N * K * sizeof(float), cuda_of(d)->compute));
    return dbias ? cuda_bias_backward(d, dbias, dy, T, N, mode) : TRINE_OK;
}
