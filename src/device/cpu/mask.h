/* Dropout factors along a row of elements, with vectors (philox.h).
 *
 * Invariant: the factors are bit-identical to those of dropout.h wherever a row is split: a Philox
 * block that the split cuts is computed on both sides. Cost: about 1.5 instructions per element with
 * AVX-512. */
#ifndef TRINE_DEVICE_CPU_MASK_H
#define TRINE_DEVICE_CPU_MASK_H

#include "device/ops.h"

/* factors (n) = the factors of elements [element, element + n) of sample number `sample`: 0 or
 * 1 / (1 - p). */
void cpu_dropout_factors(float *factors, size_t n, const dropout_args *drop, uint64_t sample,
                         uint64_t element);

#endif
