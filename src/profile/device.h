/* A device that times another one: its table forwards each operator to the device inside and adds
 * up calls, time and work. Work is what the operator has to do whatever its implementation: flops
 * of matmuls and attention, bytes of the rest, by formulas over the arguments (profile.c has them
 * all in one place). Divided by the time it is a rate to compare with profile/limits.h.
 *
 * Flops are counted as the papers do (Narayanan et al. 2021, appendix): 2 T N K a matmul; causal
 * attention 2 B T^2 H D forward and twice that backward, whatever is computed again there; so that
 * a training step of the whole model counts gpt_flops_per_token (model/gpt.h). Bytes: each
 * operand once for each time that it must be read or written; an operator whose operands still lie
 * in a cache can therefore be faster than memory.
 *
 * Invariant: the results are those of the device inside, bit for bit. A device that nobody profiles
 * has no part of this: it is another table. Cost: two looks at the clock an operator; where
 * operators return before they are done a wait for each, so that such a step takes longer than one
 * that is not profiled. */
#ifndef TRINE_PROFILE_DEVICE_H
#define TRINE_PROFILE_DEVICE_H

#include "device/ops.h"

/* Every timed function, and what its work is: all operators of ops.h, and memory's two. */
#define DEVICE_TIMED_LIST(X)                                                                       \
    X(linear_forward, WORK_FLOPS)                                                                  \
    X(linear_residual, WORK_FLOPS)                                                                 \
    X(linear_backward_input, WORK_FLOPS)                                                           \
    X(linear_backward_weight, WORK_FLOPS)                                                          \
    X(bias_residual, WORK_BYTES)                                                                   \
    X(dropout_residual, WORK_BYTES)                                                                \
    X(dropout, WORK_BYTES)                                                                         \
    X(bias_backward, WORK_BYTES)                                                                   \
    X(norm_forward, WORK_BYTES)                                                                    \
    X(norm_backward, WORK_BYTES)                                                                   \
    X(gelu_forward, WORK_BYTES)                                                                    \
    X(gelu_backward, WORK_BYTES)                                                                   \
    X(attention_forward, WORK_FLOPS)                                                               \
    X(attention_backward, WORK_FLOPS)                                                              \
    X(embedding_forward, WORK_BYTES)                                                               \
    X(embedding_backward, WORK_BYTES)                                                              \
    X(position_forward, WORK_BYTES)                                                                \
    X(position_backward, WORK_BYTES)                                                               \
    X(xent_forward, WORK_BYTES)                                                                    \
    X(xent_rescale, WORK_BYTES)                                                                    \
    X(xent_loss, WORK_BYTES)                                                                       \
    X(xent_backward, WORK_BYTES)                                                                   \
    X(add, WORK_BYTES)                                                                             \
    X(sum_squares, WORK_BYTES)                                                                     \
    X(adamw, WORK_BYTES)                                                                           \
    X(attention_cached, WORK_FLOPS)                                                                \
    X(copy, WORK_BYTES)                                                                            \
    X(zero, WORK_BYTES)

typedef enum { WORK_FLOPS, WORK_BYTES } device_work;

typedef enum {
#define DEVICE_TIMED_ENUM(name, work) TIMED_##name,
    DEVICE_TIMED_LIST(DEVICE_TIMED_ENUM)
#undef DEVICE_TIMED_ENUM
    DEVICE_TIMED
} device_timed;

typedef struct {
    uint64_t calls, ns, work; /* work: flops or bytes */
} device_time;

typedef struct {
    device device;      /* what the operators are called with */
    ops table;          /* device's: without what the device inside does not have */
    device_memory memory; /* device's: `host` is that of the device inside */
    struct device *inner; /* not owned */
    device_time times[DEVICE_TIMED];
    uint64_t ns; /* of all */
    /* NULL: the clock; else marks (spans.h), and ns is the time of the host's calls. */
    struct device_spans *spans;
} device_profile;

/* Sets p->device up as a timing device around `inner`, which must outlive it; all counts are zero.
 * `p` must stay where it is. There is nothing to close. Not collective. */
void device_profile_init(device_profile *p, device *inner);

/* "linear_forward", and what its work is. Pure. */
const char *device_timed_text(device_timed which);
device_work device_timed_work(device_timed which);

#endif
