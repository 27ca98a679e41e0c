/* The cuda device from the library's side: opens the shared object with all that needs CUDA,
 * chooses a GPU, and hands out what the object knows (cuda/backend.h). The object is, in this
 * order,
 *
 *   the file that device_config.library names, and no other;
 *   libtrine_cuda.so in the folder of the executable or shared library that this code lies in,
 *   then in ../lib from there; then where the system's loader looks.
 *
 * A file that is there and cannot be loaded ends the search: half an installation is to be
 * repaired, not avoided. Invariant: nothing here is called, and nothing of CUDA mapped, unless a
 * cuda device is opened. Cost: loading the object and cuBLASLt, once a process; both stay mapped
 * after cuda_close, since CUDA's own threads and exit handlers live in them. */
#ifndef TRINE_DEVICE_CUDA_OPEN_H
#define TRINE_DEVICE_CUDA_OPEN_H

#include "device/cuda/backend.h"

/* device_open's part: sets d's tables, and makes the GPU number place modulo count of the node's
 * GPUs its own. Errors: TRINE_EUNSUPPORTED when there is no object, one of another version, or no
 * GPU that it can use, with the reason; the object's own. Not collective. */
trine_status cuda_open(device *d, const device_config *config);
/* Leaves a device for sizes alone. */
void cuda_close(device *d);

/* What a rank's GPU is, and where it stands among those that this process sees. */
typedef struct {
    cuda_info info;
    int ordinal, count;
} cuda_gpu;
/* `d` is an open cuda device. Errors: the object's own. Not collective. */
trine_status cuda_describe(const device *d, cuda_gpu *gpu);

/* From this rank's GPU to another of its host. */
cuda_link cuda_link_with(const device *d, const char *bus);

/* device_pin's and device_unpin's part. */
trine_status cuda_pin(device *d, void *p, size_t bytes);
void cuda_unpin(device *d, void *p);

/* The object's nccl table (backend.h), NULL if it was built without nccl.h. Pure. */
const void *cuda_nccl(const device *d);
/* The object's table for measuring; NULL for a device that is none of CUDA. Pure. */
const cuda_measure *cuda_measures(const device *d);

#endif
