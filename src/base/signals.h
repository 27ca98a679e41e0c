/* The signals that ask a process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (a closed terminal) and SIGUSR1 (which
 * mpirun passes on to its ranks). A thread of its own receives them, and may therefore lock, print and remove files.
 *
 * No handler may run in a thread that computes: oneDNN's GEMM for processors without AVX-512 (jit_avx_gemm_f32.cpp of
 * 2.6 to 3.7) points the stack pointer into its workspace on the heap, and the kernel writes a signal's frame below
 * it, over whatever lies there. So the signals are blocked in the thread that calls signals_catch and in those
 * that it starts later: call it first. The handler, which a thread that existed before may still run, only stores the
 * number and wakes the thread. SIGUSR2 asks
 * for a report (train/stop.c). SIGQUIT stays what it is: the process ends at once, with a core file.
 *
 * SIGINT and SIGHUP stay ignored if they are ignored at the start, as a shell does for its background jobs and nohup
 * for its command. State of the process, since a signal is addressed to a process. Not collective. */
#ifndef TRINE_BASE_SIGNALS_H
#define TRINE_BASE_SIGNALS_H

#include <stdbool.h>

#include "trine_types.h" /* trine_status */

/* Called in the thread for a signal that has arrived (several of one number may be one call), and with 0 when the
 * time that the last call returned is over. Returns the seconds until then; 0: no such call. */
typedef double (*signals_heard)(int number);

/* Starts the thread; `all`: for the four signals and SIGUSR2, else for SIGUSR2 alone. With `all` it also keeps Open
 * MPI from starting a daemon beside a process without a launcher, by an environment variable. One call a process.
 * Errors: TRINE_ENOMEM if no thread can be created; signals then have their previous effect. */
trine_status signals_catch(signals_heard heard, bool all);

/* "SIGINT"; "signal" if the number is none of these. Pure. */
const char *signals_name(int number);

/* A line on standard error that replaces a progress bar on a terminal: "trine: TEXT". In one write, from any
 * thread. */
void signals_say(const char *text);

/* Ends the process by the default action of the signal: a shell sees 128 + number. Flushes nothing. */
_Noreturn void signals_end(int number);

#endif
