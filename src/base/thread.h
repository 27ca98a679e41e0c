/* The threads of the library, all made here. Two rules hold for each of them:
 *
 * It does not touch the environment. setenv, which MPI_Init and any program may call, moves and frees what getenv of
 * another thread walks over; glibc has no lock for that before 2.41. What such a thread asks of the environment, the
 * name of its job, is read before by the thread that makes it.
 *
 * It blocks all signals but those that a fault of its own raises (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS)
 * or abort() does: a program's handlers do not run in it, but a crash in it is reported by whoever reports crashes,
 * MPI or the program. Where such a signal is blocked the kernel ends the process without a word. */
#ifndef TRINE_BASE_THREAD_H
#define TRINE_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* As pthread_create, without attributes: 0, or an error number (EAGAIN, ENOMEM). The caller joins or detaches the
 * thread. Not collective. */
int thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

/* Whether thread_start has made the calling thread; the name of its job if so ("": none), which it owns. Pure. */
bool thread_is_own(void);
const char *thread_job(void);

#endif
