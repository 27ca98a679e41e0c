/* Busy and idle time of a cuda device's stream: a mark before and a mark after each operator of a step
 * (cuda/events.h), set through a timing device (timed_device.h) that does not wait. All marks are created
 * once and read after the step.
 *
 *   step    begin |gap| operator |gap| operator ... |gap| end
 *
 * A gap is time in which no operator ran: the host was late, or a transfer was in progress. Each gap
 * is counted for the operator after it. Invariant: operators and gaps sum to the step.
 *
 * Limitation: the time from a mark in an empty stream to the operator that the host launches next, some
 * microseconds, counts as the operator's; `starved` counts these cases. Cost: two marks and a query per
 * operator; the marks' own time in the stream is part of the gaps, which are therefore slightly too
 * large. */
#ifndef TRINE_PROFILE_SPANS_H
#define TRINE_PROFILE_SPANS_H

#include "device/cuda/events.h"
#include "profile/timed_device.h"

typedef struct device_spans {
    const cuda_measure *measure;
    cuda_marks *marks;
    device_timed *which; /* (capacity) */
    int capacity, count, lost; /* operators: allocated, seen, dropped */
    int starved;               /* operators that found the stream empty */
    trine_status status;       /* the first error of a mark */
} device_spans;

/* Of one step, in seconds; gap[n] is before operators of kind n, the last one after all operators. */
typedef struct {
    double step, operators, gaps;
    double span[DEVICE_TIMED], gap[DEVICE_TIMED + 1];
    int count, starved;
} spans_sum;

/* Allocates marks for `capacity` operators per step. `d` is an open cuda device and must outlive it. *s is owned
 * by the caller until spans_destroy. Errors: TRINE_ENOMEM, TRINE_EMATH. Not collective. */
trine_status spans_create(device_spans **s, device *d, int capacity);
void spans_destroy(device_spans **s);

/* Around a step. spans_end waits for the device and fills *sum.
 * Errors: TRINE_EMATH, of any mark or of the step; TRINE_EINVAL if the step has more operators than marks. */
trine_status spans_begin(device_spans *s);
trine_status spans_end(device_spans *s, spans_sum *sum);

/* For timed_device.c: around an operator. */
void spans_before(device_spans *s);
void spans_behind(device_spans *s, device_timed which);

#endif
