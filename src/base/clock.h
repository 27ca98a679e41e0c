/* The clock of everything that is timed: whole nanoseconds, so that times add up exactly. Parts
 * of an interval that are measured from one reading to the next sum to the interval, in whatever
 * order they are added; a profile relies on it (profile/profile.h).
 *
 * Invariant: never goes back, and has no relation to the time of day or to other machines' clocks.
 * Cost: some 20 ns where the kernel maps its clock into the process, as Linux does. */
#ifndef TRINE_BASE_CLOCK_H
#define TRINE_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some moment before the process began. Not collective. */
uint64_t clock_ns(void);

#endif
