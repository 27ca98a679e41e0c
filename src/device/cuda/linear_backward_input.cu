#include "device/cuda/matmul.h"

/* cuBLASLt does not accept empty matrices. */
static trine_status linear_backward_input(device *d, void *dx, const void *w, const void *dy,
                                          size_t T, size_t N, size_t K) {
    if (T == 0 || K == 0) return TRINE_OK;
    if (N > 0) return cuda_matmul(d, MATMUL_DX, dx, dy, w, NULL, NULL, T, N, K);
    TRY_CUDA(cudaMemsetAsync(dx, 0, T * K * cuda_bytes(d->compute), cuda_of(d)->compute));
    return TRINE_OK;
}

CUDA_OF_ALL(linear_backward_input);
