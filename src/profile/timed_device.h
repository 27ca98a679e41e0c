/* A device that times another one: its table forwards each operator to the device inside and adds
 * up calls, time and work. Work is what the operator has to do whatever its implementation: flops
 * of matmuls and attention, bytes of the rest, by the formulas over the arguments that stand in the
 * rows of device/ops.h. Divided by the time it is a rate to compare with limits.h.
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
#ifndef TRINE_PROFILE_TIMED_DEVICE_H
#define TRINE_PROFILE_TIMED_DEVICE_H

#include "device/ops.h"

typedef enum { WORK_FLOPS, WORK_BYTES } device_work;

/* Every timed function: all operators of ops.h, and memory's two. */
typedef enum {
#define TIMED_ENUM(name, ...) TIMED_##name,
    OPS_LIST(TIMED_ENUM, TIMED_ENUM)
#undef TIMED_ENUM
    TIMED_copy,
    TIMED_zero,
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
