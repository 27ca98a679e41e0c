/* Dropout masks along a row of elements, by the vector (philox.h).
 *
 * Invariant: the factors are dropout.h's, bit for bit, wherever a row is cut: a block that a cut
 * runs through is made on both sides of it. Cost: about an instruction and a half an element with
 * AVX-512. */
#ifndef TRINE_DEVICE_CPU_MASK_H
#define TRINE_DEVICE_CPU_MASK_H

#include "device/ops.h"

/* factors (n): what elements [element, element + n) of sample number `sample` are multiplied by, 0
 * or 1 / (1 - p). */
void cpu_dropout_factors(float *factors, size_t n, const dropout_args *drop, uint64_t sample,
                         uint64_t element);

#endif
