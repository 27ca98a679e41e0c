/* Dropout masks by the vector: Philox of base/rng.h, WIDE blocks side by side, each word in the low half
 * of 64 bits, where one instruction multiplies it into all 64 and the halves need no shuffling.
 *
 * Invariant: the factors are dropout.h's, bit for bit, wherever a row is cut.
 * Cost: about an instruction and a half an element with AVX-512, twice that with AVX2. */
#ifndef TRINE_DEVICE_CPU_MASK_H
#define TRINE_DEVICE_CPU_MASK_H

#include "device/ops.h"

/* factors (n): what elements [element, element + n) of sample number `sample` are multiplied by, 0 or
 * 1 / (1 - p). */
void cpu_dropout_factors(float *factors, size_t n, const dropout_args *drop, uint64_t sample,
                         uint64_t element);

#endif
