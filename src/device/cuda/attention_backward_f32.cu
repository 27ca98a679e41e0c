#include "device/cuda/attention_backward.cuh"

template trine_status attention_backward<float>(device *, void *, const void *, const void *,
                                                const void *, const float *, const int32_t *,
                                                void *, const dropout_args *, size_t, size_t,
                                                size_t, size_t, size_t);
