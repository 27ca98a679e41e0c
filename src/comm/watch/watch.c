#include "comm/watch/watch.h"
#include "comm/api/observe.h"
#include "comm/watch/hook.h"
#include "comm/watch/last_words.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/options.h"
#include "base/thread.h"

#define DEFAULT_TIMEOUT 600.0
/* Seconds between two looks of the thread. */
#define TICK 0.1
/* Seconds for which ranks are observed: a live rank has given many signs of life by then. */
#define SIGHT 1.0
/* The launcher reads standard error from a pipe; what it has not read when it kills the job is
 * lost. */
#define LINGER 0.5
/* Seconds that other ranks give the reporting rank. */
#define MARGIN 10.0

static struct {
    int users;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool end;     /* guarded by lock */
    double given; /* by watch_timeout; NAN: the environment's */
    _Atomic double limit;
    _Atomic(const char *) call; /* NULL: no call in progress */
    _Atomic uint32_t number;    /* of calls so far */
    _Atomic(place_words) words;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .given = NAN, .limit = DEFAULT_TIMEOUT};

double watch_step(double *last) {
    double now = clock_seconds(), step = *last > 0 ? now - *last : 0;
    *last = now;
    return step < WATCH_LOOK ? step : WATCH_LOOK;
}

/* An invalid value is ignored. */
static double environment_limit(void) {
    const char *text = environment_value("TRINE_TIMEOUT");
    double seconds;
    return text && options_seconds(text, &seconds) ? seconds : DEFAULT_TIMEOUT;
}

/* Before the thread needs it, which must not ask the environment. */
static void settle_limit(void) {
    watch.limit = isnan(watch.given) ? environment_limit() : watch.given;
}

void watch_timeout(double seconds) {
    watch.given = seconds;
    settle_limit();
}

double watch_limit(void) {
    return watch.limit;
}

void watch_words(place_words words) {
    watch.words = words;
}

place_words watch_words_of(void) {
    return watch.words;
}

void watch_say(const char *text, size_t bytes) {
    fflush(stdout);
    while (bytes) {
        ssize_t n = write(STDERR_FILENO, text, bytes);
        if (n <= 0) return;
        text += n;
        bytes -= (size_t)n;
    }
}

void watch_say_last(const char *why) {
    char at[512], line[600];
    if (comm_write_last(why, at, sizeof at)) {
        int n =
            snprintf(line, sizeof line, "    the last two steps of this node's ranks: %s\n", at);
        watch_say(line, n > 0 && n < (int)sizeof line ? (size_t)n : 0);
    }
    last_words_way_on();
}

/* ---- Blocking calls -------------------------------------------------------------------------- */

void watch_enter(const char *call) {
    rank_place *p = board_write();
    size_t length = strcspn(call, "(");
    snprintf(p->call, sizeof p->call, "%.*s", (int)length, call);
    p->calls++;
    p->waited = 0;
    board_written();
    watch.number++;
    watch.call = call;
}

void watch_leave(void) {
    watch.call = NULL;
    board_write()->call[0] = '\0';
    board_written();
}

/* ---- The thread ------------------------------------------------------------------------------ */

static const rank_place *own_place(const sighting *all, int count) {
    for (int i = 0; i < count; i++)
        if (all[i].at.pid == getpid()) return &all[i].at;
    return all ? &all[0].at : NULL;
}

/* Leaves those that are in no other world than this process. Returns how many. */
static int keep_fellows(sighting *all, int count) {
    const rank_place *own = own_place(all, count);
    uint64_t world = own ? own->world : 0;
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (!all[i].at.world || all[i].at.world == world) all[kept++] = all[i];
    return kept;
}

/* Whether the report has ranks of this node only. How many of them a caller's communicator has is not known. */
static bool is_part(const rank_place *own, int count) {
    return (own->world ? count : board_expected()) < own->size;
}

/* Ranks of the job that this node has, and that have not reached trine_world_create. */
static int absent_of(const rank_place *own, int count) {
    int expected = board_expected();
    return !own->world && expected > count ? expected - count : 0;
}

/* Returns if the alarm is cancelled. */
static void report(double waited) {
    static char text[PLACES_BYTES];
    sighting *all;
    int count;
    bool seen = board_observe(SIGHT, RANK_WAITS, &all, &count);
    if (seen) count = keep_fellows(all, count);
    if (seen && places_alive(all, count)) {
        free(all);
        board_release_report();
        return;
    }
    const rank_place *own = seen ? own_place(all, count) : NULL;
    if (own && count) {
        places_head head = {.who = own,
                            .seconds = waited,
                            .limit = watch_limit(),
                            .limit_name = "timeout",
                            .absent = absent_of(own, count),
                            .part = is_part(own, count)};
        watch_say(text, places_print(text, sizeof text, &head, all, count, watch_words_of()));
        watch_say_last("timeout");
    }
    board_seal();
    clock_nap(LINGER);
    hook_end();
}

/* Another rank of this node may be reporting already. */
static void time_out(double waited) {
    if (board_claim_report()) {
        board_hush();
        report(waited);
        return;
    }
    for (double last = 0, left = MARGIN; board_has_reporter(); left -= watch_step(&last)) {
        if (left < 0) hook_end();
        board_beat();
        clock_nap(TICK);
    }
}

/* False when the thread is to exit. */
static bool tick(void) {
    struct timespec until = clock_ahead(CLOCK_MONOTONIC, TICK);
    pthread_mutex_lock(&watch.lock);
    if (!watch.end) pthread_cond_timedwait(&watch.ends, &watch.lock, &until);
    bool end = watch.end;
    pthread_mutex_unlock(&watch.lock);
    return !end;
}

static void *watch_loop(void *unused) {
    double last = 0, waited = 0;
    uint32_t number = 0;
    while (tick()) {
        double step = watch_step(&last), limit = watch_limit();
        bool same = watch.call && watch.number == number;
        waited = same ? waited + step : 0;
        number = watch.number;
        board_beat();
        last_words_look();
        if (limit <= 0 || waited <= limit) continue;
        time_out(waited);
        waited = last = 0;
    }
    return unused;
}

static void start_thread(void) {
    if (clock_cond_init(&watch.ends)) return;
    watch.end = false;
    watch.runs = thread_start(&watch.thread, watch_loop, NULL) == 0;
    if (!watch.runs) pthread_cond_destroy(&watch.ends);
}

static void stop_thread(void) {
    if (!watch.runs) return;
    pthread_mutex_lock(&watch.lock);
    watch.end = true;
    pthread_cond_signal(&watch.ends);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    pthread_cond_destroy(&watch.ends);
    watch.runs = false;
}

void watch_start(void) {
    board_join();
    if (watch.users++) return;
    settle_limit();
    start_thread();
}

void watch_world(uint64_t world) {
    if (watch.users != 1) return;
    stop_thread(); /* it reads the board */
    board_move(world);
    start_thread();
}

void watch_stop(void) {
    if (watch.users && !--watch.users) stop_thread();
    board_leave();
}
