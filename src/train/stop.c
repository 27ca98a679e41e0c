#include "train/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/status.h"
#include "comm/api/observe.h"

/* Signals that follow each other faster are one request: timeout(1) sends its signal twice. */
#define TOGETHER 0.1
/* Seconds after which a request that no rank has acted on is confirmed. (A launcher that ends a job because a rank has
 * failed sends SIGTERM, and SIGKILL sooner.) */
#define SILENCE 2.0
/* The launcher reads standard error from a pipe; what it has not read when it ends the job is lost. Ranks that say
 * nothing leave later. */
#define LINGER_SAYS   0.3
#define LINGER_SILENT 1.0

enum { BEFORE, TRAINING, SAVED };
enum { WORD_BEFORE, WORD_LATER, WORD_AT_ONCE };

/* Per process: a signal is not addressed to a particular trainer. */
static _Atomic int caught; /* the last signal's number; 0: none */
static _Atomic int phase;
static pthread_mutex_t beginning =
    PTHREAD_MUTEX_INITIALIZER; /* of the training: phase is BEFORE no longer */
static _Atomic bool acted;     /* the ranks have compared since the signal */
static bool catching;
static bool stopping; /* trine_stop_catch: the run saves before it ends */
static double began;  /* on the monotonic clock; 0: not set yet */

/* ---- The signals' thread --------------------------------------------------------------------- */

/* Of the thread; `fresh` starts it anew. */
static struct {
    double first; /* SIGINT, SIGTERM or SIGHUP; 0: none yet */
    double asked; /* any signal that has not been confirmed; 0: none */
} heard;
static _Atomic bool fresh;

/* True if this rank has said it. */
static bool say(int word, int number, const char *text) {
    char line[400];
    if (!comm_may_say(word)) return false;
    snprintf(line, sizeof line, "%s%s", signals_name(number), text);
    signals_say(line);
    return true;
}

static void linger(bool said) {
    if (said) comm_hush();
    if (comm_launched() > 1) clock_nap(said ? LINGER_SAYS : LINGER_SILENT);
}

/* Returns if the training has begun meanwhile, or has been given up (an error, which is printed). If not, it does not begin any more: the lock stays taken. */
static void end_before(int number) {
    pthread_mutex_lock(&beginning);
    if (phase != BEFORE || comm_leaving()) {
        pthread_mutex_unlock(&beginning);
        return;
    }
    linger(say(WORD_BEFORE, number,
               " before the first step: nothing was trained, and nothing is saved; earlier "
               "checkpoints are unchanged. The same command starts again"));
    _exit(TRINE_EXIT_REQUEUE);
}

static _Noreturn void end_at_once(int number) {
    if (phase == TRAINING)
        linger(say(WORD_AT_ONCE, number,
                   " again: the run ends at once, without a save; --load auto resumes the newest "
                   "complete checkpoint"));
    signals_end(number);
}

static double confirm(double time) {
    double left = heard.asked + SILENCE - time;
    if (phase != TRAINING || acted) return heard.asked = 0;
    if (left > 0) return left;
    heard.asked = 0;
    (void)say(WORD_LATER, caught,
              ": the run saves and ends when the current step is done, or the save that is in "
              "progress; a second signal ends it at once, without a save");
    return 0;
}

/* The ring, because a user asks for it. Without one SIGUSR2 ends the process, as usual. */
static double tell_ring(void) {
    char line[700], at[512];
    comm_last done = comm_write_last("SIGUSR2", at, sizeof at);
    if (done == COMM_LAST_NONE) signals_end(SIGUSR2);
    snprintf(line, sizeof line, "SIGUSR2: the last two steps of this node's ranks: %s", at);
    if (done == COMM_LAST_OWN) signals_say(line);
    return 0;
}

static double on_signal(int number) {
    double time = clock_seconds();
    if (number == SIGUSR2) return tell_ring();
    if (number && !stopping) signals_end(number);
    bool urgent = number && number != SIGUSR1;
    if (atomic_exchange(&fresh, false)) heard.first = heard.asked = 0;
    if (urgent && heard.first > 0 && time - heard.first > TOGETHER) end_at_once(number);
    if (urgent && !(heard.first > 0)) heard.first = time;
    if (number && !caught) heard.asked = time, acted = false;
    if (number) caught = number;
    if (number && phase == BEFORE) end_before(number);
    return heard.asked > 0 ? confirm(time) : 0;
}

static trine_status catch_signals(bool all) {
    if (catching) return TRINE_OK;
    catching = true;
    trine_status status = signals_catch(on_signal, all);
    catching = status == TRINE_OK;
    return status;
}

trine_status trine_stop_catch(void) {
    caught = 0;
    phase = BEFORE;
    fresh = true;
    began = clock_seconds();
    stopping = true;
    comm_before_world();
    return catch_signals(true);
}

trine_status trine_trace_catch(void) {
    return catch_signals(false);
}

trine_status trine_progress_catch(trine_progress how) {
    CHECK((unsigned)how <= TRINE_PROGRESS_BAR, TRINE_EINVAL,
          "%s: how is %d; it must be TRINE_PROGRESS_AUTO, _LINE or _BAR", __func__, (int)how);
    return progress_wanted(stdout, how) ? catch_signals(true) : TRINE_OK;
}

void stop_training(void) {
    if (phase == TRAINING) return;
    pthread_mutex_lock(&beginning);
    phase = TRAINING;
    pthread_mutex_unlock(&beginning);
}

void stop_saved(void) {
    phase = SAVED;
}

bool stop_heard(void) {
    return caught != 0;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* A reason and its rank as one number, whose maximum all ranks compute: reason 0 is none, 1 the time
 * limit, else the signal's number plus one; of several ranks the lowest wins. */
#define RANK_BITS 32

double stop_elapsed(void) {
    if (!(began > 0)) began = clock_seconds();
    return clock_seconds() - began;
}

static int64_t own_reason(double max_minutes, int rank) {
    int64_t signal = caught, reason = 0;
    double elapsed = stop_elapsed();
    if (max_minutes > 0 && elapsed >= 60 * max_minutes) reason = 1;
    if (signal) reason = signal + 1;
    return reason ? reason << RANK_BITS | (INT32_MAX - rank) : 0;
}

trine_status stop_asked(trine_comm *world, double max_minutes, bool *stop, stop_reason *why) {
    int64_t reason = own_reason(max_minutes, trine_comm_rank(world));
    *stop = false;
    if (!stopping && !(max_minutes > 0)) return TRINE_OK; /* no rank can have a reason */
    TRY(trine_all_reduce(world, &reason, &reason, 1, TRINE_I64, TRINE_MAX));
    *stop = reason != 0;
    acted = acted || *stop;
    if (*stop)
        *why = (stop_reason){.signal = (int)(reason >> RANK_BITS) - 1,
                             .rank = INT32_MAX - (int)(reason & INT32_MAX)};
    return TRINE_OK;
}
