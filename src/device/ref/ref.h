/* The specification of every operator: plain loops in the order of the formulas in ops.h. Sums
 * and functions are computed in double and rounded to float once, when they are stored. So ref is
 * close to the exact result, and the difference of another backend from ref is its own rounding. Only
 * elementwise additions (bias and residual, dropout, embedding, position, add) are in float.
 *
 * A 16-bit result is that float, rounded once more: other backends round a float, too, and store the
 * same bits if their float is the same. The error relative to the exact result is half a unit in the
 * last place plus half a float unit: 0.5 + 2^-17 units of bf16, 0.5 + 2^-14 of fp16.
 *
 * Invariant: no threads, no state, no allocation; one operator (or forward and backward pair) per
 * file; all types that a device may have. Cost: about one multiplication per nanosecond; for tests
 * and small models. */
#ifndef TRINE_DEVICE_REF_REF_H
#define TRINE_DEVICE_REF_REF_H

#include "base/half.h"
#include "device/ops.h"

static inline size_t ref_bytes(trine_dtype type) {
    return type == TRINE_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Element i of p, whose elements are of `type`. */
static inline double ref_load(trine_dtype type, const void *p, size_t i) {
    if (type == TRINE_F32) return (double)((const float *)p)[i];
    uint16_t bits = ((const uint16_t *)p)[i];
    return (double)(type == TRINE_BF16 ? bf16_load(bits) : f16_load(bits));
}

static inline void ref_store(trine_dtype type, void *p, size_t i, double x) {
    if (type == TRINE_F32)
        ((float *)p)[i] = (float)x;
    else
        ((uint16_t *)p)[i] = type == TRINE_BF16 ? bf16_store((float)x) : f16_store((float)x);
}

/* The value to which a gradient is added. */
static inline double ref_old(trine_dtype type, const void *p, size_t i, grad_mode mode) {
    return mode == GRAD_ADD ? ref_load(type, p, i) : 0.0;
}

/* Functions with exactly the types of the table. */
#define REF(op, ...) __typeof__(*((ops *)0)->op) ref_##op;
OPS_LIST(REF, REF)
REF(attention_workspace)
#undef REF

#endif
