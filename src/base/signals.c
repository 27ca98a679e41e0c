#include "base/signals.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/status.h"
#include "base/terminal_line.h"
#include "base/thread.h"

#define COUNT 5

/* The last one is not of those that end a process. */
static const int numbers[COUNT] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
static const char *const names[COUNT] = {"SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"};

static atomic_bool arrived[COUNT];
static int first; /* of those that are caught */
static sem_t news;
static signals_heard listener;

/* ---- Catching -------------------------------------------------------------------------------- */

static void keep(int number) {
    int error = errno;
    for (int i = 0; i < COUNT; i++)
        if (numbers[i] == number) arrived[i] = true;
    sem_post(&news);
    errno = error;
}

static void mask_signals(int how) {
    sigset_t all;
    sigemptyset(&all);
    for (int i = first; i < COUNT; i++) sigaddset(&all, numbers[i]);
    pthread_sigmask(how, &all, NULL);
}

/* Waits for news, `seconds` at most (0: without a limit). False when the time is over. */
static bool wait_for_news(double seconds) {
    struct timespec until = clock_ahead(CLOCK_REALTIME, seconds);
    int failed;
    do failed = seconds > 0 ? sem_timedwait(&news, &until) : sem_wait(&news);
    while (failed && errno == EINTR);
    return !failed;
}

static void *listen_loop(void *unused) {
    double next = 0;
    mask_signals(SIG_UNBLOCK);
    while (true) {
        if (!wait_for_news(next)) {
            next = listener(0);
            continue;
        }
        for (int i = 0; i < COUNT; i++)
            if (atomic_exchange(&arrived[i], false)) next = listener(numbers[i]);
    }
    return unused;
}

static bool is_ignored(int number) {
    struct sigaction now;
    return (number == SIGINT || number == SIGHUP) && !sigaction(number, NULL, &now) &&
           !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN;
}

/* Open MPI 4 starts a daemon (orted) beside a process without a launcher, for MPI_Comm_spawn alone, and MPI_Init fails if
 * the daemon dies: of a signal to the process group, which until its setsid is the process's own. */
static void start_no_daemon(void) {
    environment_set("OMPI_MCA_ess_singleton_isolated", "1");
}

trine_status signals_catch(signals_heard heard, bool all) {
    struct sigaction action = {.sa_handler = keep, .sa_flags = SA_RESTART};
    pthread_t thread;
    sigemptyset(&action.sa_mask);
    listener = heard;
    first = all ? 0 : COUNT - 1;
    sem_init(&news, 0, 0);
    if (all) start_no_daemon();
    mask_signals(SIG_BLOCK);
    int error = thread_start(&thread, listen_loop, NULL);
    if (error) mask_signals(SIG_UNBLOCK);
    CHECK(!error, TRINE_ENOMEM, "cannot create the signal thread: %s", strerror(error));
    pthread_detach(thread);
    for (int i = first; i < COUNT; i++)
        if (!is_ignored(numbers[i])) sigaction(numbers[i], &action, NULL);
    return TRINE_OK;
}

/* ---- Words and ends -------------------------------------------------------------------------- */

const char *signals_name(int number) {
    for (int i = 0; i < COUNT; i++)
        if (numbers[i] == number) return names[i];
    return "signal";
}

void signals_say(const char *text) {
    char line[1024];
    terminal_line_erase();
    int length =
        snprintf(line, sizeof line, "%strine: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
    size_t left = length < (int)sizeof line ? (size_t)length : sizeof line - 1;
    for (const char *at = line; left;) {
        ssize_t n = write(STDERR_FILENO, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        at += n;
        left -= (size_t)n;
    }
}

_Noreturn void signals_end(int number) {
    sigset_t one;
    terminal_line_erase();
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(128 + number); /* not reached: the four signals end a process */
}
