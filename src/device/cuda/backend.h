/* The seam between the library and the shared object with everything that needs CUDA and NCCL
 * (libtrine_cuda.so), which is opened only when a GPU is asked for: a CPU run of a CUDA build maps
 * none of it. The object exports one function, of type cuda_load, named CUDA_LOAD.
 *
 * The object is linked with nothing of libtrine. What it needs from there (errors, which keep one
 * trail per thread) it gets as functions. Invariant: no CUDA type stands in this header, so that
 * both sides agree on it whatever CUDA they were built with; `abi` says whether they do. */
#ifndef TRINE_DEVICE_CUDA_BACKEND_H
#define TRINE_DEVICE_CUDA_BACKEND_H

#include "device/cuda/events.h"
#include "device/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_LIBRARY "libtrine_cuda.so"
#define CUDA_LOAD    "trine_cuda_load"
#define CUDA_ABI     10

/* What the object calls back (base/status.h). */
typedef struct {
    trine_status (*raise)(trine_status status, const char *file, int line, const char *func,
                          const char *message);
    trine_status (*frame)(trine_status status, const char *file, int line, const char *func);
    void (*assert_failed)(const char *file, int line, const char *expression); /* does not return */
} cuda_host;

/* What the banner says of a rank's GPU. */
typedef struct {
    char model[64], bus[32]; /* "NVIDIA H200", its PCI address */
    uint64_t bytes, free_bytes; /* of its memory: all, and free now */
    uint64_t own_bytes;         /* taken by the device itself: workspace and scratch */
    uint64_t cache;             /* of its last level */
    int sm, multiprocessors;    /* compute capability: 90 is 9.0 */
    /* Versions: 13000 is 13.0, NCCL's 22703 is 2.27.3; 0: not there, or not opened yet. */
    int driver, runtime, cublas, nccl;
} cuda_info;

/* How one GPU of a host reaches another: itself, directly, or through the host's memory. UNKNOWN:
 * this process does not see it. */
typedef enum {
    CUDA_LINK_UNKNOWN,
    CUDA_LINK_SAME,
    CUDA_LINK_NVLINK,
    CUDA_LINK_PCIE,
    CUDA_LINK_HOST
} cuda_link;

typedef struct {
    int abi; /* CUDA_ABI */
    /* The operators of a device of these types; NULL: there are none. Pure. */
    const struct ops *(*ops_of)(trine_dtype compute, trine_dtype grads);
    const device_memory *memory;
    /* Number of GPUs; 0 with the reason in `why` (size). */
    int (*count)(char *why, size_t size);
    /* Makes GPU `ordinal` the one of device d: d->state, all that is not in the plan.
     * Errors: TRINE_EUNSUPPORTED, TRINE_ENOMEM. */
    trine_status (*open)(device *d, int ordinal);
    void (*close)(device *d);
    trine_status (*info)(const device *d, cuda_info *info);
    /* Host memory [p, p + bytes) may be copied from and to at full speed (pinned) from now on. */
    trine_status (*pin)(device *d, void *p, size_t bytes);
    void (*unpin)(device *d, void *p);
    /* The transport of groups whose ranks have a GPU each (src/comm/transport/nccl/nccl.h's), NULL if the object
     * was built without nccl.h. Its type is known in src/comm. */
    const void *nccl;
    const cuda_measure *measure;
    /* From d's GPU to that with this PCI address, on the same host. */
    cuda_link (*link)(const device *d, const char *bus);
} cuda_backend;

typedef const cuda_backend *(*cuda_load)(const cuda_host *host);

#ifdef __cplusplus
}
#endif

#endif
