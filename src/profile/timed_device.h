/* A device that times another one: its table forwards each operator to the inner device and adds up
 * calls, time and work. Work does not depend on the implementation: flops of matmuls and attention,
 * bytes of all others, by the formulas over the arguments in the rows of device/ops.h. Work divided by
 * time is a rate to compare with limits.h.
 *
 * Flops are counted as in the papers (Narayanan et al. 2021, appendix): 2 T N K a matmul; causal
 * attention 2 B T^2 H D forward and twice that backward, regardless of recomputation; so a training
 * step of the full model counts gpt_flops_per_token (model/gpt.h). Bytes: each operand once for each
 * time that it must be read or written; an operator whose operands are in cache can therefore exceed
 * the memory rate.
 *
 * Invariant: results are bitwise those of the inner device. A device that is not profiled has another
 * table and no overhead. Cost: two clock reads per operator, and a wait after each operator that
 * returns before it is complete, so that such a step takes longer than one that is not profiled. */
#ifndef TRINE_PROFILE_TIMED_DEVICE_H
#define TRINE_PROFILE_TIMED_DEVICE_H

#include "device/ops.h"

typedef enum { WORK_FLOPS, WORK_BYTES } device_work;

/* Every timed function: all operators of ops.h, and copy and zero. */
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
    device device;      /* passed to the operators */
    ops table;          /* device's: without the operators that the inner device lacks */
    device_memory memory; /* device's: `host` is the inner device's */
    struct device *inner; /* not owned */
    device_time times[DEVICE_TIMED];
    uint64_t ns; /* of all */
    /* NULL: timed by the clock; else by marks (spans.h), and ns is the time of the host's calls. */
    struct device_spans *spans;
} device_profile;

/* Sets up p->device as a timing device around `inner`, which must outlive it; all counts are zero.
 * `p` must not be moved. There is nothing to close. Not collective. */
void device_profile_init(device_profile *p, device *inner);

/* "linear_forward", and the unit of its work. Pure. */
const char *device_timed_text(device_timed which);
device_work device_timed_work(device_timed which);

#endif
