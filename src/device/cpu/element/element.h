/* One source file for all pairs of types. The files in this directory are compiled once for each pair
 * that device.h allows (PAIRS in the Makefile), with ELEMENT and GRAD defined as f32, bf16 or f16:
 *
 *   element, element_get, element_put   the compute type, and its load and store
 *   grad, grad_get, grad_put            the same for gradients of parameters
 *   CPU(norm_forward)                   cpu_bf16_f32_norm_forward: function names contain the pair;
 *                                       ops_table.c makes a table of them for each pair
 *
 * A kernel loads floats, computes in float and stores floats; it names no type. A sum that goes into a
 * gradient is kept in float until it is complete.
 * Invariant: all backends round the same float to the same 16 bits (base/half.h). For f32, loads and
 * stores are no operations, and the code is that of plain floats.
 * Cost: bf16: a shift to load, five integer operations to store; fp16, by arithmetic: some ten. */
#ifndef TRINE_DEVICE_CPU_ELEMENT_ELEMENT_H
#define TRINE_DEVICE_CPU_ELEMENT_ELEMENT_H

#include "base/half.h"
#include "device/cpu/cpu.h"

#define CPU_PASTE(e, g, op) cpu_##e##_##g##_##op
#define CPU_NAME(e, g, op)  CPU_PASTE(e, g, op)
#define CPU(op)             CPU_NAME(ELEMENT, GRAD, op)

#define TYPE_PASTE(type, what) type##_##what
#define TYPE_NAME(type, what)  TYPE_PASTE(type, what)

typedef float f32_number;
typedef uint16_t bf16_number, f16_number;

static inline float f32_load(float x) {
    return x;
}
static inline float f32_store(float x) {
    return x;
}

typedef TYPE_NAME(ELEMENT, number) element;
typedef TYPE_NAME(GRAD, number) grad;

static inline float element_get(element x) {
    return TYPE_NAME(ELEMENT, load)(x);
}
static inline element element_put(float x) {
    return TYPE_NAME(ELEMENT, store)(x);
}
static inline float grad_get(grad x) {
    return TYPE_NAME(GRAD, load)(x);
}
static inline grad grad_put(float x) {
    return TYPE_NAME(GRAD, store)(x);
}

/* Functions with exactly the types of the table. There is no linear_residual. */
#define KERNEL(op, ...) __typeof__(*((ops *)0)->op) CPU(op);
#define NONE(op, ...)
OPS_LIST(KERNEL, NONE)
KERNEL(attention_workspace)
#undef KERNEL

#endif
