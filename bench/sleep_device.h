/* A device whose passes take a given time without a processor, so that more stages than cores can be measured: every
 * operator returns at once and computes nothing, except three, which sleep. Each of them occurs once in the pass of a
 * GPT-2 block:
 *
 *   attention_forward                       in FORWARD
 *   attention_backward                      in BACKWARD and in BACKWARD_INPUT
 *   linear_backward_weight, N = 4 K (c_fc)  in BACKWARD and in BACKWARD_WEIGHT
 *
 * Embedding and head take no time. Memory functions are those of the inner device. A sleep ends at a deadline. Where
 * the processor wakes a rank late, its next sleep is shorter by that, if the rank has waited for nothing in between:
 * it is the waits that are measured, not the machine's timers.
 * Invariant: activations and gradients keep the contents of the memory; what is zero remains zero. */
#ifndef TRINE_BENCH_SLEEP_DEVICE_H
#define TRINE_BENCH_SLEEP_DEVICE_H

#include "device/ops.h"

typedef enum { SLEEP_FORWARD, SLEEP_INPUT, SLEEP_WEIGHT, SLEEPS } sleep_part;

typedef struct {
    device device; /* passed to the operators */
    ops table;     /* device's */
    uint64_t ns[SLEEPS];
    uint64_t calls[SLEEPS];
    uint64_t deadline; /* of the last sleep */
    uint64_t late;     /* nanoseconds by which sleeps ended too late */
} sleep_device;

/* Sets up d->device around `inner`, a device in host memory, which must outlive it. seconds: of each part. `d` must
 * not be moved. There is nothing to close. Not collective. */
void sleep_device_init(sleep_device *d, const device *inner, const double seconds[SLEEPS]);
/* The sum of all sleeps so far as intended, in seconds. Pure. */
double sleep_device_busy(const sleep_device *d);

#endif
