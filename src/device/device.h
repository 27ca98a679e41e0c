/* A device is two tables: memory (here) and maths operators (ops.h). The model sees nothing else:
 * it names no backend and no element type. Activations and parameters are `void *` in the device's
 * compute type (`compute`), gradients of parameters in the type `grads`; statistics are float.
 *
 * There are three: ref (plain loops, the specification), cpu (oneDNN and vectorised kernels) and
 * cuda, whose tables are in a shared object that is opened with it (cuda_open.h). To add one: a row
 * in DEVICE_LIST, one in open.c, and a folder with its ops.
 * Invariant: the tables compute the same function; tests/ops holds each against ref.
 * Cost: one indirect call per operator. */
#ifndef TRINE_DEVICE_DEVICE_H
#define TRINE_DEVICE_DEVICE_H

#include "trine.h"

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

/* The kinds below this one compute on processors, in the host's memory, and are always there. */
#define DEVICE_HOST_KINDS DEVICE_CUDA

/* How matrices of fp32 are multiplied: DEVICE_TF32 rounds the factors to 10 bits of mantissa and
 * adds in fp32 (NVIDIA, "A100 Tensor Core GPU architecture", 2020); cuda only. */
typedef enum { DEVICE_FP32, DEVICE_TF32 } device_precision;

struct ops;
struct device;

/* Where a device's buffers live; the functions device_alloc and so on call these. */
typedef struct {
    bool host; /* the processor may read and write them too: read and write below are memcpy */
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
    trine_dtype grads;   /* of gradients of parameters: TRINE_F32, or `compute` */
    device_precision precision;
    int threads;         /* what the operators may use */
    void *state;         /* the backend's own (primitive caches); NULL in ref */
    void *opened;        /* cuda_open.c's; NULL elsewhere, and in a device for sizes */
} device;

/* What a device is opened with. */
typedef struct {
    device_kind kind;
    int threads;         /* what the operators may use, at least 1 */
    const char *library; /* cuda: the object's file; NULL: looked for (cuda_open.h) */
    int place;           /* cuda: this rank's among those of its node, from 0: which GPU is its */
    device_precision precision;
    trine_dtype compute, grads; /* 0: TRINE_F32 */
} device_config;

/* Finds a kind by its name in the list. Errors: TRINE_EINVAL names all; name may be NULL. Pure. */
trine_status device_find(device_kind *kind, const char *name);

/* Opens a device. On success *d is owned by the caller. `config` is not needed afterwards.
 * Errors: TRINE_EUNSUPPORTED, with the reason why there is no GPU; TRINE_ENOMEM. Not collective. */
trine_status device_open_with(device **d, const device_config *config);
/* The same with `threads` threads (>= 1) and nothing else. */
trine_status device_open(device **d, device_kind kind, int threads);
/* What plans are made with, of kind, types and threads as configured: of its tables only memory->host
 * and attention_workspace may be looked at. Needs neither a GPU nor the object, nor a processor that
 * can do it. Ended by device_close_sizes. Errors: TRINE_ENOMEM. Not collective. */
trine_status device_open_sizes(device **d, const device_config *config);
void device_close_sizes(device **d);
void device_close(device **d);

/* `bytes` bytes of device memory, zero, aligned to 4096 (a GPU's to 256); freed with device_free.
 * `bytes` must be what was asked for. Errors: TRINE_ENOMEM. */
trine_status device_alloc(device *d, void **p, size_t bytes);
void device_free(device *d, void *p, size_t bytes);
/* A device has one queue: operators, copies and fills are done in the order of their calls, some
 * time after these return (on a host device before). */
/* Copies and fills in device memory. */
void device_copy(device *d, void *dst, const void *src, size_t bytes);
void device_zero(device *d, void *dst, size_t bytes);

/* From and to the host's memory, in the queue's order; both return when they are done, and with
 * them all before. Errors: TRINE_EMATH, also those of earlier work in the queue. */
trine_status device_read(device *d, void *host, const void *src, size_t bytes);
trine_status device_write(device *d, void *dst, const void *host, size_t bytes);
/* `rows` runs of `bytes` bytes of device memory, each `stride` >= bytes behind the one before, side
 * by side into the host's memory. Errors: as above. */
trine_status device_read_rows(device *d, void *host, const void *src, size_t stride, size_t bytes,
                              size_t rows);
/* As device_write, but returns at once. The host's memory must stay as it is until a device_read,
 * device_write or device_wait after it has returned, which have its errors, too. Pinned memory is
 * read by the device itself, so that the host does not wait for the queue. */
trine_status device_write_start(device *d, void *dst, const void *host, size_t bytes);
/* Returns when the queue is empty. Errors: those of the work in it. */
trine_status device_wait(device *d);

/* Host memory [p, p + bytes), whole pages, is read and written by this device from now on, until
 * device_unpin: transfers are then made without a copy of it. On processors nothing happens, nor
 * for 0 bytes. Errors: TRINE_ENOMEM, after which the memory serves as it did before: the driver then
 * copies through a buffer of its own, slower, and while the host waits. */
trine_status device_pin(device *d, void *p, size_t bytes);
void device_unpin(device *d, void *p);

/* Rows of a matrix that has not got to have as many as it has (the vocabulary's, on a tp rank) are
 * rounded up to a multiple of this: 64 on a GPU, whose library has its fast kernels where sizes and
 * row lengths are multiples of 16 bytes (cuBLAS documentation, "Tensor Core Usage") and whose tiles
 * are 64 and more wide; 1 on processors. Pure. */
size_t device_row_multiple(const device *d);

/* The processors that this process may run on, counted from its affinity mask. */
int device_affinity_cpus(void);
/* The mask itself, one bit a processor; those from DEVICE_MASK_WORDS * 64 on are left out. */
#define DEVICE_MASK_WORDS 64
void device_affinity_mask(uint64_t mask[DEVICE_MASK_WORDS]);
/* The processors that the node has online. */
int device_node_cpus(void);

#ifdef __cplusplus
}
#endif

#endif
