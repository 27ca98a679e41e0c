/* The clock of all timings: integer nanoseconds, so that times add up exactly. The parts of an interval,
 * each measured from one reading to the next, sum to the interval in any order; a profile relies on it
 * (profile/profile.h).
 *
 * Invariant: monotonic; unrelated to the time of day and to other machines' clocks.
 * Cost: some 20 ns where the kernel maps its clock into the process, as Linux does. */
#ifndef TRINE_BASE_CLOCK_H
#define TRINE_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since an arbitrary time before the process started. Not collective. */
uint64_t clock_ns(void);

#endif
