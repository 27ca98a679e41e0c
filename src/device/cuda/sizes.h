/* What the memory plan must know of the cuda device, where no object and no GPU is: --dry-run prints
 * it on any machine. The object's operators take their sizes from here too, so that a plan made
 * without it is the plan that is taken. Plain C that is C++ as well, and no CUDA type.
 *
 * Attention keeps no (T, T) matrix (Dao et al., "FlashAttention", 2022, section 3.1): what its
 * backward pass needs beside its operands is one sum a row, of dy times y. */
#ifndef TRINE_DEVICE_CUDA_SIZES_H
#define TRINE_DEVICE_CUDA_SIZES_H

#include <stddef.h>

/* Bytes of a GPU that stay free beside the plans of the ranks on it, for each of them. All that a step
 * uses has been used once before its memory is taken (train/warm_up.h), so this is for what a driver
 * or a library may still ask for: memory comes in pieces of 2 MiB (CUDA Driver API, virtual memory
 * management), a connection of NCCL has 9.2 MiB of buffers (CUDA_NCCL_CONNECTION). */
#define CUDA_RESERVE ((size_t)64 << 20)

/* What a dry run says that a rank's libraries take before its plan. No more than an estimate; a run
 * measures it, and its banner says it.
 *   CONTEXT      the driver's context, with kernels loaded as they are used: 0.4 to 0.6 GiB are usual
 *                on the GPUs of today
 *   CONNECTION   NCCL's buffers for one neighbour and channel: 4 MiB, 4.7 and 0.5 for its three
 *                protocols (NCCL 2.28, src/init.cc, computeBuffSizes)
 *   CHANNELS     of a communicator: 16 and more on a node with NVLink (src/graph/connect.cc) */
#define CUDA_CONTEXT         ((size_t)512 << 20)
#define CUDA_NCCL_CONNECTION ((size_t)9633792)
#define CUDA_NCCL_CHANNELS   16

/* Of the device itself: scratch for sums over rows in two passes (pieces, then their sum), and
 * cuBLASLt's workspace, of which Hopper's kernels want 32 MiB (cuBLAS documentation,
 * cublasSetWorkspace). */
#define CUDA_SCRATCH_BYTES ((size_t)16 << 20)
#define CUDA_WORKSPACE     ((size_t)32 << 20)

/* The widest head (D) that attention takes; a configuration with wider ones is refused before it
 * runs. */
#define CUDA_WIDEST_HEAD 256

/* Bytes of ops.attention_workspace. Pure. */
static inline size_t cuda_attention_bytes(size_t B, size_t T, size_t H, size_t D) {
    (void)D;
    return B * H * T * sizeof(float);
}

#endif
