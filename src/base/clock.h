/* The clock of all timings: integer nanoseconds, so that times add up exactly. The parts of an interval,
 * each measured from one reading to the next, sum to the interval in any order; a profile relies on it
 * (profile/profile.h).
 *
 * Invariant: monotonic; unrelated to the time of day and to other machines' clocks.
 * Cost: some 20 ns where the kernel maps its clock into the process, as Linux does. */
#ifndef TRINE_BASE_CLOCK_H
#define TRINE_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Nanoseconds since an arbitrary time before the process started. Not collective. */
uint64_t clock_ns(void);
/* The same in seconds. */
double clock_seconds(void);

void clock_nap(double seconds);

/* The time of `clock` in so many seconds, for a wait with a limit. */
struct timespec clock_ahead(clockid_t clock, double seconds);
/* A condition whose limits are times of CLOCK_MONOTONIC. Returns 0 or the error of pthreads. */
int clock_cond_init(pthread_cond_t *cond);

#endif
