/* The backward pass of attention for each type of the tensors, compiled in files of their own
 * (attention_backward.cuh has the code). Shapes, units and errors: attention_backward in device/ops.h. */
#ifndef TRINE_DEVICE_CUDA_ATTENTION_BACKWARD_H
#define TRINE_DEVICE_CUDA_ATTENTION_BACKWARD_H

#include "device/cuda/cuda.h"

template <typename real>
trine_status attention_backward(device *d, void *dqkv, const void *dy, const void *qkv,
                                const void *y, const float *lse, const int32_t *starts, void *work,
                                const dropout_args *drop, size_t B, size_t T, size_t H, size_t K,
                                size_t D);

#endif
