/* Blocking calls of MPI and NCCL have no time limit, and a rank in one of them cannot check a clock. The watch
 * thread does: it calls no MPI. When a call between watch_enter and watch_leave has taken longer than the limit, it
 * prints the state of this node's ranks (board.h) and ends the process with status 1, on which a launcher ends the
 * job. It also gives this process's sign of life.
 *
 * Unobserved time does not count as wait time: a look counts at most WATCH_LOOK seconds since the look before, so
 * that the waits of a job that was suspended as a whole do not grow while it is suspended.
 *
 * One thread a process (base/thread.h), which reads no environment: MPI_Init, in another thread, changes it.
 * Cost: ten wake-ups a second. */
#ifndef TRINE_COMM_WATCH_WATCH_H
#define TRINE_COMM_WATCH_WATCH_H

#include "comm/watch/places.h"

#define WATCH_LOOK 0.25

/* The part of the time since *last (0: no look before) that counts as wait time; sets *last to now. */
double watch_step(double *last);

/* Starts the thread if it does not run; each call needs its watch_stop. If no thread can be made, calls have no
 * limit. Not collective. */
void watch_start(void);
void watch_stop(void);
/* After watch_start, before the world has communicated: this process's first world is one of a caller's communicator,
 * with this number (board_move). In a process that is in a world already: nothing. */
void watch_world(uint64_t world);

/* The limit of blocking calls, in seconds; 0: none. NAN: TRINE_TIMEOUT from the environment, or 600, as it is now and
 * at each watch_start of a process that is in no world. */
void watch_timeout(double seconds);
double watch_limit(void);

/* Called before and after a call that may block. `call` begins with the function's name, and outlives the call. */
void watch_enter(const char *call);
void watch_leave(void);

/* The function that formats instructions in reports. */
void watch_words(place_words words);
place_words watch_words_of(void);

/* Prints a report, in one write to standard error. */
void watch_say(const char *text, size_t bytes);
/* Writes the last words of this node (api/observe.h), if there are any, and prints where, and how to go on: lines
 * below a message. */
void watch_say_last(const char *why);

#endif
