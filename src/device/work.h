/* The work of an operator, by the formulas over its arguments in the rows of OPS_LIST (device/ops.h): flops, or
 * bytes that must be moved. What these formulas call is here; included where a device's table is made from the
 * list in order to count (profile/timed_device.c, cost/count_device.c). */
#ifndef TRINE_DEVICE_WORK_H
#define TRINE_DEVICE_WORK_H

#include "device/ops.h"

/* Bytes of `n` numbers of the compute type. */
static inline uint64_t numbers(const device *d, size_t n) {
    return n * trine_dtype_bytes(d->compute);
}

static inline uint64_t floats(size_t n) {
    return n * sizeof(float);
}

/* Bytes of `n` numbers of the gradient type. */
static inline uint64_t gradients(const device *d, size_t n) {
    return n * trine_dtype_bytes(d->grads);
}

/* Memory accesses per gradient element: `+=` reads and writes. */
static inline size_t moves(grad_mode mode) {
    return mode == GRAD_ADD ? 2 : 1;
}

/* Flops of half of the (T, T) scores, for q k^T and p v. */
static inline uint64_t attention_flops(size_t B, size_t T, size_t H, size_t D) {
    return 2 * B * T * T * H * D;
}

#endif
