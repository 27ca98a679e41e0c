/* Sizes of the cuda device for the memory plan, which --dry-run prints on any machine, without the
 * shared object and without a GPU. The object's operators use the same sizes, so that such a plan equals
 * that of a run. Valid as C and as C++, without CUDA types.
 *
 * Attention stores no (T, T) matrix (Dao et al., "FlashAttention", 2022, section 3.1): besides its
 * operands the backward pass needs one sum per row, of dy times y. */
#ifndef TRINE_DEVICE_CUDA_SIZES_H
#define TRINE_DEVICE_CUDA_SIZES_H

#include <stddef.h>

/* Bytes of a GPU that stay free in addition to the plans of its ranks, for each rank. All kernels and
 * library functions of a step run once before the memory is allocated (train/warm_up.h), so this is for
 * later allocations by the driver or a library: memory is allocated in units of 2 MiB (CUDA Driver API,
 * virtual memory management). NCCL's connections and algorithms have been used then, too
 * (comm/transport/nccl/group.cuh, nccl_warm_up). */
#define CUDA_RESERVE ((size_t)64 << 20)

/* A dry run's estimate of the memory that a rank's libraries use in addition to the plan; a run
 * measures it and prints it in the banner.
 *   CONTEXT      the driver's context, with kernels loaded when they are used: usually 0.4 to 0.6 GiB
 *                on today's GPUs
 *   CONNECTION   NCCL's buffers for one neighbour and channel. What is received there has 4 MiB, 4.7 and 0.5 for the
 *                three protocols (NCCL 2.28, src/init.cc, computeBuffSizes), in units of 2 MiB: 10; what is sent 4.
 *                Measured on H100: 3.28 GB for 7 neighbours of 32 channels (NVIDIA/nccl issue 1685)
 *   CHANNELS     of collectives: 16 on a node with NVLink (src/graph/connect.cc)
 *   MESSAGE_...  of messages, for each peer, where maxCTAs does not limit them (the same issue)
 *   NVLS         multicast buffers of a group, with NVSwitch */
#define CUDA_CONTEXT               ((size_t)512 << 20)
#define CUDA_NCCL_CONNECTION       ((size_t)14 << 20)
#define CUDA_NCCL_CHANNELS         16
#define CUDA_NCCL_MESSAGE_CHANNELS 32
#define CUDA_NCCL_NVLS             ((size_t)256 << 20)

/* Memory of the device itself: scratch for sums over rows in two passes (partials, then their sum), and
 * cuBLASLt's workspace; 32 MiB are recommended for Hopper (cuBLAS documentation,
 * cublasSetWorkspace). */
#define CUDA_SCRATCH_BYTES ((size_t)16 << 20)
#define CUDA_WORKSPACE     ((size_t)32 << 20)

/* The largest head width (D) that attention supports; configurations with wider heads are rejected
 * before the run. */
#define CUDA_WIDEST_HEAD 256

/* Bytes of ops.attention_workspace. Pure. */
static inline size_t cuda_attention_bytes(size_t B, size_t T, size_t H, size_t K, size_t D) {
    (void)K, (void)D;
    return B * H * T * sizeof(float);
}

#endif
