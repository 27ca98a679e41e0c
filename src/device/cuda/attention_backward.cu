/* The table of attention's backward pass, and its workspace. */
#include "device/cuda/attention_backward.h"
#include "device/cuda/kernel.cuh"
#include "device/cuda/sizes.h"

CUDA_OF_COMPUTE(attention_backward);

static size_t attention_workspace(const device *d, size_t B, size_t T, size_t H, size_t K,
                                  size_t D) {
    (void)d;
    return cuda_attention_bytes(B, T, H, K, D); /* delta */
}

CUDA_OF_ALL(attention_workspace);
