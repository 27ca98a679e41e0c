/* The cuda device in the library: opens the shared object with all code that needs CUDA, selects a
 * GPU, and gives access to the object's functions (cuda/backend.h). The object is
 *
 *   the file device_config.library, if set, and no other; else
 *   libtrine_cuda.so in the directory of the executable or shared library that contains this code,
 *   then in ../lib from there, then in the loader's search path.
 *
 * A file that exists but cannot be loaded ends the search with an error, because a damaged
 * installation should be repaired. Invariant: nothing here is called, and nothing of CUDA is mapped,
 * unless a cuda device is opened. Cost: loading the object and cuBLASLt, once per process; both stay
 * mapped after cuda_close, because CUDA's threads and exit handlers run code in them. */
#ifndef TRINE_DEVICE_CUDA_OPEN_H
#define TRINE_DEVICE_CUDA_OPEN_H

#include "device/cuda/backend.h"

/* Called by device_open: sets the tables of d and selects GPU number place modulo count among the GPUs of
 * the node. Errors: TRINE_EUNSUPPORTED, with the reason, if there is no object, if it has another version or
 * if no GPU can be used; the object's own. Not collective. */
trine_status cuda_open(device *d, const device_config *config);
/* Does nothing for a device for sizes. */
void cuda_close(device *d);

/* A rank's GPU, and its number among those that this process sees. */
typedef struct {
    cuda_info info;
    int ordinal, count;
} cuda_gpu;
/* `d` is an open cuda device. Errors: the object's own. Not collective. */
trine_status cuda_describe(const device *d, cuda_gpu *gpu);

/* The link from this rank's GPU to another GPU of the same host. */
cuda_link cuda_link_with(const device *d, const char *bus);

/* Called by device_pin and device_unpin. */
trine_status cuda_pin(device *d, void *p, size_t bytes);
void cuda_unpin(device *d, void *p);

/* The object's nccl table (backend.h), NULL if it was built without nccl.h. Pure. */
const void *cuda_nccl(const device *d);
/* The object's table of measuring functions; NULL if d is not an open cuda device. Pure. */
const cuda_measure *cuda_measures(const device *d);

#endif
