/* The specification of every operator: plain loops in the order of the formulas in ops.h. Sums
 * and functions are computed in double and rounded to float once, when they are stored, so that ref
 * is the nearest thing to the exact result of its inputs, and another table's distance from
 * it is that table's own rounding. Only what adds element by element (bias and residual, dropout,
 * embedding, position, add) does so in float.
 *
 * What is stored in 16 bits is that float, rounded once more: other backends have a float in their
 * hands too, and store the same bits where theirs is the same. From the exact result that is half a
 * unit in the last place and half a float's unit more: 0.5 + 2^-17 units of bf16, 0.5 + 2^-14 of
 * fp16.
 *
 * Invariant: no threads, no state, no allocation; one operator (or forward and backward pair) a
 * file; every type that a device may have. Cost: about one multiplication a nanosecond; for tests
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

/* What a gradient starts from. */
static inline double ref_old(trine_dtype type, const void *p, size_t i, grad_mode mode) {
    return mode == GRAD_ADD ? ref_load(type, p, i) : 0.0;
}

/* Functions of exactly the types that the table asks for. */
#define REF(op, ...) __typeof__(*((ops *)0)->op) ref_##op;
OPS_LIST(REF, REF)
REF(attention_workspace)
#undef REF

#endif
