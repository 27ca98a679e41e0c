/* Replaces nccl.cu if the object is built without NCCL. */
#include "device/cuda/cuda.h"

const void *cuda_nccl_table(void) {
    return NULL;
}

int cuda_nccl_version(void) {
    return 0;
}
