#include "train/stop.h"

#include <signal.h>

#include "base/clock.h"
#include "base/status.h"

/* Of this process: a signal is sent to no trainer in particular. */
static volatile sig_atomic_t caught; /* the last signal's number; 0: none */
static bool catching;
static double began; /* on the monotonic clock; 0: nobody has said so yet */

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

void trine_stop_catch(void) {
    caught = 0;
    catching = true;
    began = now();
    catch_signal(SIGTERM, (int)SA_RESETHAND);
    catch_signal(SIGUSR1, 0);
}

/* A reason and the rank that has it as one number, of which all ranks find the largest: 0 is none, 1
 * the time, a signal's number one more than it is; of several ranks the lowest. */
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
    if (!catching && !(max_minutes > 0)) return TRINE_OK; /* nobody could have a reason */
    TRY(trine_all_reduce(world, &reason, &reason, 1, TRINE_I64, TRINE_MAX));
    *stop = reason != 0;
    if (*stop)
        *why = (stop_reason){.signal = (int)(reason >> RANK_BITS) - 1,
                             .rank = INT32_MAX - (int)(reason & INT32_MAX)};
    return TRINE_OK;
}
