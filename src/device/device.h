/* A device consists of two tables: memory (here) and operators (ops.h). The model uses nothing else and
 * depends on no backend and no element type. Activations and parameters are `void *` in the device's
 * compute type (`compute`), gradients of parameters in the type `grads`; statistics are float.
 *
 * There are three devices: ref (plain loops, the specification), cpu (oneDNN and vectorised kernels)
 * and cuda, whose tables are in a shared object that is loaded when it is opened (cuda_open.h). To add
 * a device: a row in DEVICE_LIST, one in open.c, and a directory with its operators.
 * Invariant: all tables compute the same functions; tests/ops compares each with ref.
 * Cost: one indirect call per operator. */
#ifndef TRINE_DEVICE_DEVICE_H
#define TRINE_DEVICE_DEVICE_H

#include "trine_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVICE_LIST(X)                                                                             \
    X(DEVICE_CPU, "cpu")                                                                           \
    X(DEVICE_REF, "ref")                                                                           \
    X(DEVICE_CUDA, "cuda")

typedef enum {
#define DEVICE_ENUM(name, text) name,
    DEVICE_LIST(DEVICE_ENUM)
#undef DEVICE_ENUM
    DEVICE_KINDS
} device_kind;

/* The kinds below this one run on CPUs, in host memory, and are always available. */
#define DEVICE_HOST_KINDS DEVICE_CUDA

/* How fp32 matrices are multiplied: DEVICE_TF32 rounds the factors to a 10-bit mantissa and adds in
 * fp32 (NVIDIA, "A100 Tensor Core GPU architecture", 2020); cuda only. */
typedef enum { DEVICE_FP32, DEVICE_TF32 } device_precision;

/* What the order of additions inside an operator depends on, besides its sizes and the build. */
typedef enum {
    DEVICE_ORDER_UNSTATED, /* what a row has that leaves it out: no device's */
    DEVICE_ORDER_WRITTEN,  /* nothing: the loops are as they are written */
    DEVICE_ORDER_THREADS,  /* libraries, instruction set and, without exact_threads, the number of threads */
    DEVICE_ORDER_MODEL     /* libraries and the model of the GPU */
} device_order;

struct ops;
struct device;

/* The memory functions of a device, called by device_alloc and the functions below. */
typedef struct {
    bool host; /* device memory is host memory: read and write below are memcpy */
    trine_status (*alloc)(struct device *d, void **p, size_t bytes); /* bytes > 0 */
    void (*free)(struct device *d, void *p, size_t bytes);
    void (*copy)(struct device *d, void *dst, const void *src, size_t bytes);
    void (*zero)(struct device *d, void *dst, size_t bytes);
    trine_status (*read)(struct device *d, void *host, const void *src, size_t bytes);
    trine_status (*read_rows)(struct device *d, void *host, const void *src, size_t stride,
                              size_t bytes, size_t rows);
    trine_status (*write)(struct device *d, void *dst, const void *host, size_t bytes);
    trine_status (*wait)(struct device *d);
    trine_status (*write_start)(struct device *d, void *dst, const void *host, size_t bytes);
} device_memory;

typedef struct device {
    device_kind kind;
    const char *name;
    const struct ops *ops;
    const device_memory *memory;
    trine_dtype compute; /* element type of parameters and activations: TRINE_F32, BF16 or F16 */
    trine_dtype grads;   /* element type of gradients of parameters: TRINE_F32, or `compute` */
    device_precision precision;
    int threads;         /* for the operators */
    bool exact_threads;  /* as in the configuration */
    trine_cpu_level level; /* cpu: of its kernels and of oneDNN; on other devices AUTO */
    void *state;         /* of the backend (primitive caches); NULL in ref */
    void *opened;        /* of cuda_open.c; NULL for other devices and for a device for sizes */
} device;

/* The configuration of a device. */
typedef struct {
    device_kind kind;
    int threads;         /* for the operators, at least 1 */
    const char *library; /* cuda: path of the shared object; NULL: search (cuda_open.h) */
    int place;           /* cuda: number of this rank on its node, from 0, which selects its GPU */
    device_precision precision;
    trine_dtype compute, grads; /* 0: TRINE_F32 */
    bool exact_threads;  /* cpu: no bit depends on the number of threads; other devices' bits never do */
    trine_cpu_level level; /* cpu: one that the build and this processor have (base/levels.h); 0: the highest */
} device_config;

/* Finds a kind by its name; name may be NULL. Errors: TRINE_EINVAL lists all names. Pure. */
trine_status device_find(device_kind *kind, const char *name);

/* As the kind's row states it (open.c). Pure. */
device_order device_order_of(device_kind kind);

/* Opens a device. On success *d is owned by the caller. `config` is not used after the call.
 * Errors: TRINE_EUNSUPPORTED, with the reason if no GPU can be used; TRINE_ENOMEM. Not collective. */
trine_status device_open_with(device **d, const device_config *config);
/* Opens a device with `threads` threads (>= 1) and defaults for the rest. */
trine_status device_open(device **d, device_kind kind, int threads);
/* Opens a device for sizes, with which plans are made. It has the configured kind, types and threads; of its tables
 * only memory->host and attention_workspace may be used. Needs no GPU, no shared object and no CPU with support for
 * the types. Closed with device_close_sizes. Errors: TRINE_ENOMEM. Not collective. */
trine_status device_open_sizes(device **d, const device_config *config);
void device_close_sizes(device **d);
void device_close(device **d);

/* Allocates `bytes` bytes of zeroed device memory, aligned to 4096 bytes (on a GPU 256). Freed with
 * device_free, which takes the same `bytes`. Errors: TRINE_ENOMEM. */
trine_status device_alloc(device *d, void **p, size_t bytes);
void device_free(device *d, void *p, size_t bytes);
/* A device has one queue: operators, copies and fills run in the order of their calls, possibly after
 * the call has returned (on a host device before). */
/* Copy and fill device memory. */
void device_copy(device *d, void *dst, const void *src, size_t bytes);
void device_zero(device *d, void *dst, size_t bytes);

/* Copy from and to host memory, in queue order. They return when the copy and all earlier work have
 * finished. Errors: TRINE_EMATH, also those of earlier work in the queue. */
trine_status device_read(device *d, void *host, const void *src, size_t bytes);
trine_status device_write(device *d, void *dst, const void *host, size_t bytes);
/* Copies `rows` runs of `bytes` bytes of device memory, `stride` >= bytes apart, into contiguous host
 * memory. Errors: as above. */
trine_status device_read_rows(device *d, void *host, const void *src, size_t stride, size_t bytes,
                              size_t rows);
/* Like device_write, but returns at once. The host memory must not change until a later device_read,
 * device_write or device_wait has returned, which also report its errors. The device reads pinned
 * memory directly, so that the host does not wait for the queue. */
trine_status device_write_start(device *d, void *dst, const void *host, size_t bytes);
/* Waits until the queue is empty. Errors: those of the work in it. */
trine_status device_wait(device *d);

/* Pins host memory [p, p + bytes), full pages, until device_unpin, so that the device transfers it
 * without an intermediate copy. Does nothing on CPUs and for 0 bytes. Errors: TRINE_ENOMEM. The memory
 * can be used after an error, too: the driver then copies through its own buffer, which is slower and
 * blocks the host. */
trine_status device_pin(device *d, void *p, size_t bytes);
void device_unpin(device *d, void *p);

/* Creates what the products of a linear layer, x (T, K) and w (N, K), need: a device with exact_threads refuses here,
 * and otherwise in the operators, what it cannot multiply. Does nothing on other devices. Errors: TRINE_EUNSUPPORTED
 * with the product's sizes and types; TRINE_EMATH, TRINE_ENOMEM. */
trine_status device_prepare_linear(device *d, bool biased, size_t T, size_t N, size_t K);

/* The number of rows of a matrix that may be padded (the vocabulary on a tp rank) is rounded up to a
 * multiple of this. On a GPU it is 64: cuBLAS has its fast kernels where sizes and row lengths are
 * multiples of 16 bytes (cuBLAS documentation, "Tensor Core Usage"), and its tiles are 64 and more
 * wide. On CPUs it is 1. Pure. */
size_t device_row_multiple(const device *d);

/* The number of CPUs in this process's affinity mask. */
int device_affinity_cpus(void);
/* The mask itself, one bit per CPU; CPUs from DEVICE_MASK_WORDS * 64 on are left out. */
#define DEVICE_MASK_WORDS 64
void device_affinity_mask(uint64_t mask[DEVICE_MASK_WORDS]);
/* The number of CPUs that are online on the node. */
int device_node_cpus(void);

#ifdef __cplusplus
}
#endif

#endif
