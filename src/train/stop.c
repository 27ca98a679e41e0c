#include "train/stop.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

/* Per process: a signal is not addressed to a particular trainer. */
static _Atomic int caught; /* the last signal's number; 0: none */
static bool catching;
static double began; /* on the monotonic clock; 0: not set yet */

static double now(void) {
    return 1e-9 * (double)clock_ns();
}

static void keep(int number) {
    caught = number;
}

static void catch_signal(int number, int flags) {
    struct sigaction action = {.sa_handler = keep, .sa_flags = SA_RESTART | flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void mask_signals(int how) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, SIGUSR1);
    pthread_sigmask(how, &both, NULL);
}

static void *signal_thread(void *unused) {
    mask_signals(SIG_UNBLOCK);
    while (true) pause();
    return unused;
}

/* No handler may run in a thread that computes: oneDNN's GEMM for processors without AVX-512
 * (jit_avx_gemm_f32.cpp of 2.6 to 3.7) points the stack pointer into its workspace on the heap, and the
 * kernel writes a signal's frame below it, over whatever lies there. So one thread handles the signals;
 * this thread, and those that it starts later, block them. */
static trine_status start_signal_thread(void) {
    pthread_t thread;
    mask_signals(SIG_BLOCK);
    int error = pthread_create(&thread, NULL, signal_thread, NULL);
    if (error) mask_signals(SIG_UNBLOCK);
    CHECK(!error, TRINE_ENOMEM, "cannot create the signal thread: %s", strerror(error));
    pthread_detach(thread);
    return TRINE_OK;
}

trine_status trine_stop_catch(void) {
    if (!catching) TRY(start_signal_thread());
    caught = 0;
    catching = true;
    began = now();
    catch_signal(SIGTERM, (int)SA_RESETHAND);
    catch_signal(SIGUSR1, 0);
    return TRINE_OK;
}

bool stop_heard(void) {
    return caught != 0;
}

/* A reason and its rank as one number, whose maximum all ranks compute: reason 0 is none, 1 the time
 * limit, else the signal's number plus one; of several ranks the lowest wins. */
#define RANK_BITS 32

static int64_t own_reason(double max_minutes, int rank) {
    int64_t signal = caught, reason = 0;
    if (!(began > 0)) began = now();
    if (max_minutes > 0 && now() - began >= 60 * max_minutes) reason = 1;
    if (signal) reason = signal + 1;
    return reason ? reason << RANK_BITS | (INT32_MAX - rank) : 0;
}

trine_status stop_asked(trine_comm *world, double max_minutes, bool *stop, stop_reason *why) {
    int64_t reason = own_reason(max_minutes, trine_comm_rank(world));
    *stop = false;
    if (!catching && !(max_minutes > 0)) return TRINE_OK; /* no rank can have a reason */
    TRY(trine_all_reduce(world, &reason, &reason, 1, TRINE_I64, TRINE_MAX));
    *stop = reason != 0;
    if (*stop)
        *why = (stop_reason){.signal = (int)(reason >> RANK_BITS) - 1,
                             .rank = INT32_MAX - (int)(reason & INT32_MAX)};
    return TRINE_OK;
}
