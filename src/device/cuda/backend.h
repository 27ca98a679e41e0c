/* The interface between the library and the shared object with all code that needs CUDA and NCCL
 * (libtrine_cuda.so). The object is opened only for --device cuda: a CPU run of a CUDA build maps
 * none of it. The object exports one function, of type cuda_load, named CUDA_LOAD.
 *
 * The object does not link with libtrine. The functions that it needs from there (errors, which keep
 * one trail per thread) are passed to it. Invariant: this header contains no CUDA type, so that both
 * sides agree on it for every version of CUDA; `abi` is the version of the interface. */
#ifndef TRINE_DEVICE_CUDA_BACKEND_H
#define TRINE_DEVICE_CUDA_BACKEND_H

#include "device/cuda/events.h"
#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_LIBRARY "libtrine_cuda.so"
#define CUDA_LOAD    "trine_cuda_load"
#define CUDA_ABI     13

/* Functions of the library that the object calls (base/status.h). */
typedef struct {
    trine_status (*raise)(trine_status status, const char *file, int line, const char *func,
                          const char *message);
    trine_status (*frame)(trine_status status, const char *file, int line, const char *func);
    void (*assert_failed)(const char *file, int line, const char *expression); /* does not return */
} cuda_host;

/* Properties of a rank's GPU, printed in the banner. */
typedef struct {
    char model[64], bus[32]; /* "NVIDIA H200", its PCI address */
    uint64_t bytes, free_bytes; /* its memory: total, and free now */
    uint64_t own_bytes;         /* used by the device itself: workspace and scratch */
    uint64_t cache;             /* bytes of the last-level cache */
    int sm, multiprocessors;    /* compute capability: 90 is 9.0 */
    /* Versions: 13000 is 13.0, NCCL's 22703 is 2.27.3; 0: not available, or not opened yet. */
    int driver, runtime, cublas, nccl;
    int in_order; /* whether NCCL starts kernels in the host's order (comm_nccl_in_order) */
} cuda_info;

/* The link between two GPUs of a host: the same GPU, direct, or through host memory. UNKNOWN: the other
 * GPU is not visible to this process. */
typedef enum {
    CUDA_LINK_UNKNOWN,
    CUDA_LINK_SAME,
    CUDA_LINK_NVLINK,
    CUDA_LINK_PCIE,
    CUDA_LINK_HOST
} cuda_link;

typedef struct {
    int abi; /* CUDA_ABI */
    /* The operators for these types; NULL: not supported. Pure. */
    const struct ops *(*ops_of)(trine_dtype compute, trine_dtype grads);
    const device_memory *memory;
    /* Number of GPUs; if 0, the reason is in `why` (size). */
    int (*count)(char *why, size_t size);
    /* Opens GPU `ordinal` for device d: sets d->state and allocates the memory that is not in the plan.
     * Errors: TRINE_EUNSUPPORTED, TRINE_ENOMEM. */
    trine_status (*open)(device *d, int ordinal);
    void (*close)(device *d);
    trine_status (*info)(const device *d, cuda_info *info);
    /* Pins host memory [p, p + bytes), which is then copied at full speed. */
    trine_status (*pin)(device *d, void *p, size_t bytes);
    void (*unpin)(device *d, void *p);
    /* The transport of groups in which every rank has its own GPU (src/comm/transport/nccl/nccl.h); NULL if the
     * object was built without nccl.h. Its type is declared in src/comm. */
    const void *nccl;
    const cuda_measure *measure;
    /* The link from d's GPU to the GPU with this PCI address, on the same host. */
    cuda_link (*link)(const device *d, const char *bus);
} cuda_backend;

typedef const cuda_backend *(*cuda_load)(const cuda_host *host);

#ifdef __cplusplus
}
#endif

#endif
