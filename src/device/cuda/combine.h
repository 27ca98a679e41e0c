/* Sums and maxima of the addends of several ranks on the device, element by element, in rank order,
 * ((r0 + r1) + r2) + ..., or in the tree of TRINE_SUM_TREE, like comm/reduce/rank_order.c and tree.c on the host, so
 * the bits are the same. A maximum is NaN if an addend is; integers wrap; 16-bit numbers are added in fp32 and
 * rounded once.
 *
 * Invariant: the result depends on the addends only, not on the grid. Cost: each addend is read
 * once, the result is written once. */
#ifndef TRINE_DEVICE_CUDA_COMBINE_H
#define TRINE_DEVICE_CUDA_COMBINE_H

#include "device/cuda/cuda.h"

/* Addend r (count elements) is at `others` + r * stride elements; that of `rank` is at `own`. A sum in rank order may
 * have one more before them, at `first` (NULL: none). */
typedef struct {
    const void *others, *own;
    size_t stride;
    int rank, size; /* size below COMBINE_RANKS */
    const void *first;
} combine_addends;

#define COMBINE_RANKS (1 << 16)

/* dst (count) = the combined addends, on `stream`; dst may be own or first. Errors: TRINE_EMATH. */
trine_status cuda_combine(device *d, cudaStream_t stream, void *dst, const combine_addends *addends,
                          size_t count, trine_dtype type, trine_reduction op);

/* Launches each kernel of cuda_combine once, on `stream`: CUDA loads a kernel when it is first launched, and
 * allocates memory for it. `room`: 8 bytes of the device, which become 0. Errors: TRINE_EMATH. */
trine_status cuda_combine_load(device *d, cudaStream_t stream, void *room);

#endif
