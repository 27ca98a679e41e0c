/* A device that counts (count_device.h), and computes: each operator, copy and fill is an event of the trace, runs on
 * the inner device, and the event has its seconds, with a wait where the device returns before it has finished. */
#ifndef TRINE_COST_CLOCK_DEVICE_H
#define TRINE_COST_CLOCK_DEVICE_H

#include "cost/count_device.h"

typedef struct {
    device device;      /* passed to the operators */
    ops table;          /* device's */
    device_memory memory;
    count_device counter;
    struct device *inner; /* not owned */
} clock_device;

/* Sets up c->device around `inner`, which must outlive it. `c` must not be moved. There is nothing to close. Not
 * collective. */
void clock_device_init(clock_device *c, device *inner, count_trace *trace);

#endif
