/* What the memory plan must know of the cuda device, where no object and no GPU is: --dry-run prints
 * it on any machine. The object's operators take their sizes from here too, so that a plan made
 * without it is the plan that is taken. Plain C that is C++ as well, and no CUDA type.
 *
 * Attention keeps no (T, T) matrix (Dao et al., "FlashAttention", 2022, section 3.1): what its
 * backward pass needs beside its operands is one sum a row, of dy times y. */
#ifndef TRINE_DEVICE_CUDA_SIZES_H
#define TRINE_DEVICE_CUDA_SIZES_H

#include <stddef.h>

/* The widest head (D) that attention takes; a configuration with wider ones is refused before it
 * runs. */
#define CUDA_WIDEST_HEAD 256

/* Bytes of ops.attention_workspace. Pure. */
static inline size_t cuda_attention_bytes(size_t B, size_t T, size_t H, size_t D) {
    (void)D;
    return B * H * T * sizeof(float);
}

#endif
