/* What the rest of the library sees of the kernels of one level (base/levels.h): a table, in kernels.c. The functions
 * behind it are this level's own.
 *
 * Cost: one indirect call for each operator, as without levels. */
#ifndef TRINE_DEVICE_CPU_KERNELS_H
#define TRINE_DEVICE_CPU_KERNELS_H

#include "device/cpu/cpu.h"

typedef struct cpu_kernels {
    /* The operators for a pair of types that device.h allows (element/element.h). */
    const ops *(*table)(trine_dtype compute, trine_dtype grads);
    /* cpu_matmul_f16 */
    trine_status (*matmul_f16)(device *d, float *scratch, matmul_kind kind, void *out, const void *left,
                               const void *right, const void *bias, size_t T, size_t N, size_t K);
    bool pairs; /* attention multiplies bf16 numbers in pairs (attention_pairs.h) */
} cpu_kernels;

#endif
