/* When the queue of a cuda device worked, and when it was idle: a mark before and a mark behind
 * each operator of a step (cuda/events.h), set through a timing device (profile.h) that waits for
 * nothing. All marks are made once; they are read after the step.
 *
 *   step    begin |gap| operator |gap| operator ... |gap| end
 *
 * A gap is time in which no operator ran: the host was late, or a transfer was under way. Each gap
 * is counted for the operator behind it. Invariant: operators and gaps together are the step.
 *
 * What this cannot see: the time from a mark in an empty queue to the operator that the host sends
 * next, some microseconds, counts as the operator's; `starved` says how often that was. Cost: two
 * marks and a question an operator; the marks' own time in the queue stands in the gaps, so that
 * these are rather too large. */
#ifndef TRINE_PROFILE_SPANS_H
#define TRINE_PROFILE_SPANS_H

#include "device/cuda/events.h"
#include "profile/timed_device.h"

typedef struct device_spans {
    const cuda_measure *measure;
    cuda_marks *marks;
    device_timed *which; /* (capacity) */
    int capacity, count, lost; /* operators: room, seen, without room */
    int starved;               /* operators that found the queue empty */
    trine_status status;       /* the first that a mark returned */
} device_spans;

/* One step's. Seconds; gap[n] is before operators of kind n, the last one behind all. */
typedef struct {
    double step, operators, gaps;
    double span[DEVICE_TIMED], gap[DEVICE_TIMED + 1];
    int count, starved;
} spans_sum;

/* Room for `capacity` operators a step. `d` is an open cuda device and must outlive it. *s is owned
 * by the caller until spans_destroy. Errors: TRINE_ENOMEM, TRINE_EMATH. Not collective. */
trine_status spans_create(device_spans **s, device *d, int capacity);
void spans_destroy(device_spans **s);

/* Around a step. The end waits for the device and fills *sum.
 * Errors: TRINE_EMATH, of any mark or of the step; TRINE_EINVAL when there was not room enough. */
trine_status spans_begin(device_spans *s);
trine_status spans_end(device_spans *s, spans_sum *sum);

/* For device.c: around an operator. */
void spans_before(device_spans *s);
void spans_behind(device_spans *s, device_timed which);

#endif
