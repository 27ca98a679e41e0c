/* Tensor core kernels for the emulation's tests: one product of a warp, and attention in 16
 * bits (src/device/cuda/attention_mma.cuh), without the operator around it. */
#ifndef TRINE_TESTS_EMU_MMA_KERNELS_H
#define TRINE_TESTS_EMU_MMA_KERNELS_H

#include "cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { BF16, FP16 } half_type;

/* Conversions from 16 bits, and to 16 bits (to nearest). */
float half_widen(half_type type, uint16_t bits);
uint16_t half_narrow(half_type type, float x);

/* d (16, 8) += a (16, 16) b (16, 8), all row-major; b is read transposed, a is not. */
void launch_mma(cudaStream_t stream, float *d, const uint16_t *a, const uint16_t *b,
                half_type type);
/* One warp loads 32 rows of x (32, 8) from shared memory, y (32, 4) has its fragments; or it loads from an
 * invalid address, in all lanes or only in the last one. */
typedef enum { RIGHT, MISALIGNED, PAST_THE_END, IN_GLOBAL_MEMORY } wrong_rows;
void launch_load_row(cudaStream_t stream, uint32_t *y, const uint16_t *x, wrong_rows which);
/* As ops.h's attention_forward, D up to 128. */
void launch_attention(cudaStream_t stream, uint16_t *y, float *lse, const uint16_t *qkv, size_t B,
                      size_t T, size_t H, size_t K, size_t D, half_type type);

#ifdef __cplusplus
}
#endif

#endif
