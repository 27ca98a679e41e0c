/* Shared declarations of the cuda device. Each operator is a file NAME.cu with its kernels and one
 * function with exactly the type in ops.h, which launches them on the device's compute stream and
 * returns. Both are templates over the device's types; cuda_OP has the function of each table
 * (CUDA(op)). nvcc compiles the files for GPUs; for tests the host's compiler compiles them with the
 * headers of emu, and the same kernels run on the CPU, one thread at a time.
 *
 * Rules for both compilers: kernels are launched with LAUNCH only; shared memory whose size is known
 * at launch is declared with SHARED_MEMORY; the only language extensions are __global__,
 * __device__, __shared__, __syncthreads, the *_sync shuffles and the vector types.
 * Invariants: equal bits from run to run: no atomics on floating-point data, sums in an order that
 * depends on the shapes only. The start of a tensor is 256-byte aligned; rows need not be aligned,
 * and kernels check before they read several elements at once. A failed launch is
 * TRINE_EMATH, or TRINE_ENOMEM if there is no memory for the kernel's code; errors in a kernel are reported by the
 * next device_wait, read or write. */
#ifndef TRINE_DEVICE_CUDA_CUDA_H
#define TRINE_DEVICE_CUDA_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "base/status.h"
#include "device/cuda/backend.h"
#include "device/cuda/sizes.h"
#include "device/ops.h"

/* A `void *` of ops.h is one of these or float. */
typedef __nv_bfloat16 bf16;
typedef __half fp16;

#define WARP       32
#define ALL_LANES  0xffffffffu

/* Scratch for sums, in floats. */
#define CUDA_SCRATCH (CUDA_SCRATCH_BYTES / sizeof(float))

struct cuda_matmuls;

/* device.state */
typedef struct {
    int ordinal, multiprocessors;
    cudaStream_t compute;
    float *scratch;  /* (CUDA_SCRATCH), of the compute stream */
    void *workspace; /* CUDA_WORKSPACE bytes, of the compute stream */
    struct cuda_matmuls *matmuls; /* matmul.cu's */
    cudaError_t failed; /* of a copy or a fill; reported by the next read, write or wait */
} cuda_state;

static inline cuda_state *cuda_of(const device *d) {
    return (cuda_state *)d->state;
}

#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        cudaError_t try_cuda_ = (call);                                                            \
        if (try_cuda_ != cudaSuccess)                                                              \
            return RAISE(TRINE_EMATH, "%s: %s", #call, cudaGetErrorString(try_cuda_));             \
    } while (0)

/* LAUNCH(d, kernel, grid, block, shared bytes)(arguments...); then return LAUNCHED(kernel). */
#ifdef __CUDACC__
#define LAUNCH(d, kernel, grid, block, shared)                                                     \
    kernel<<<(grid), (block), (shared), cuda_of(d)->compute>>>
#define SHARED_MEMORY(type, name) extern __shared__ __align__(16) type name[]
#else
#define LAUNCH(d, kernel, grid, block, shared)                                                     \
    emu_launcher(kernel, (grid), (block), (shared), cuda_of(d)->compute)
#define SHARED_MEMORY(type, name) type *name = (type *)emu_shared_memory()
#endif

static inline trine_status cuda_launched(const char *kernel, const char *file, int line,
                                         const char *func) {
    cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess) return TRINE_OK;
    /* A kernel's code is loaded with its first launch. */
    return status_raise(e == cudaErrorMemoryAllocation ? TRINE_ENOMEM : TRINE_EMATH, file, line,
                        func, "launch of %s: %s", kernel, cudaGetErrorString(e));
}
#define LAUNCHED(kernel) cuda_launched(#kernel, __FILE__, __LINE__, __func__)

/* The types of the tables, {compute, grads}; functions are templates over those types that they depend on. */
enum { CUDA_F32, CUDA_BF16_F32, CUDA_BF16_BF16, CUDA_F16_F32, CUDA_F16_F16, CUDA_TYPES };

/* Functions with exactly the type in the tables, one per table. */
#define CUDA_FUNCTIONS(op)  const __typeof__(((ops *)0)->op) cuda_##op[CUDA_TYPES]
#define CUDA_OF_ALL(op)     CUDA_FUNCTIONS(op) = {op, op, op, op, op}
#define CUDA_OF_COMPUTE(op) CUDA_FUNCTIONS(op) = {op<float>, op<bf16>, op<bf16>, op<fp16>, op<fp16>}
#define CUDA_OF_GRADS(op)                                                                          \
    CUDA_FUNCTIONS(op) = {op<float>, op<float>, op<bf16>, op<float>, op<fp16>}
#define CUDA_OF_BOTH(op)                                                                           \
    CUDA_FUNCTIONS(op) = {op<float, float>, op<bf16, float>, op<bf16, bf16>, op<fp16, float>,      \
                          op<fp16, fp16>}
#define CUDA(op, ...) extern CUDA_FUNCTIONS(op);

/* Bytes of an element. */
static inline size_t cuda_bytes(trine_dtype type) {
    return type == TRINE_F32 ? sizeof(float) : sizeof(uint16_t);
}

OPS_LIST(CUDA, CUDA)
CUDA(attention_workspace)

/* host.cu: RAISE, TRY and ASSERT call the library that opened this object. Must be called first. */
void cuda_host_set(const cuda_host *host);

/* src/comm/transport/nccl/nccl.cu: `nccl` of backend.h; absent.cu: NULL. */
const void *cuda_nccl_table(void);
/* NCCL's version code; 0: not available, or not opened yet. */
int cuda_nccl_version(void);

/* link.cu: `link` of backend.h. */
cuda_link cuda_link_to(const device *d, const char *bus);

/* matmul.cu */
trine_status cuda_matmuls_create(device *d);
void cuda_matmuls_destroy(device *d);
int cuda_matmuls_version(void); /* the library's */
/* The library's handle, for products.cu. */
void *cuda_matmuls_library(const device *d);

/* marks.cu and products.cu: see events.h. */
extern const cuda_measure cuda_measures_all;
trine_status cuda_product_create(device *d, cuda_product **p, const cuda_product_config *config);
void cuda_product_destroy(cuda_product **p);
trine_status cuda_product_run(cuda_product *p, void *out, const void *left, const void *right,
                              const void *bias);

#endif
