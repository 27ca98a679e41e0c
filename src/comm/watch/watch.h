/* MPI's and NCCL's calls that block have no time limit of their own, and a rank in one of them cannot look at
 * a clock. A thread does: it calls no MPI, and when a call between watch_enter and watch_leave has lasted
 * longer than the limit it prints where the ranks of this node are (board.h) and ends the process with
 * status 1, on which a launcher ends the job. It also gives this process's sign of life.
 *
 * Time that nobody watched is no waiting: a look counts at most WATCH_LOOK seconds since the one before,
 * so that a job which is suspended as a whole finds its waits as long as they were.
 *
 * One of it in a process. It blocks all signals. Cost: ten wake-ups a second. */
#ifndef TRINE_COMM_WATCH_WATCH_H
#define TRINE_COMM_WATCH_WATCH_H

#include "comm/watch/places.h"

#define WATCH_LOOK 0.25

/* Seconds on the monotonic clock. */
double watch_now(void);
/* The part of the time since *last (0: there was no look before) that counts; *last = now. */
double watch_step(double *last);

void watch_nap(double seconds);

/* Starts the thread, if it does not run; each call wants its watch_stop. Where there can be no thread, calls
 * have no limit. Not collective. */
void watch_start(void);
void watch_stop(void);

/* The limit of blocking calls, in seconds; 0: none. NAN: the environment's TRINE_TIMEOUT, or 600. */
void watch_timeout(double seconds);
double watch_limit(void);

/* Around a call that may block. `call` begins with the function's name, and outlives the call. */
void watch_enter(const char *call);
void watch_leave(void);

/* How instructions are written in reports. */
void watch_words(place_words words);
place_words watch_words_of(void);

/* A report is one write to standard error. */
void watch_say(const char *text, size_t bytes);

#endif
