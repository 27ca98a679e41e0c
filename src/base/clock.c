#include "base/clock.h"

uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double clock_seconds(void) {
    return 1e-9 * (double)clock_ns();
}

static struct timespec split(double seconds) {
    time_t whole = (time_t)seconds;
    return (struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
}

void clock_nap(double seconds) {
    struct timespec t = split(seconds);
    nanosleep(&t, NULL);
}

struct timespec clock_ahead(clockid_t clock, double seconds) {
    struct timespec now, more = split(seconds);
    clock_gettime(clock, &now);
    long ns = now.tv_nsec + more.tv_nsec;
    return (struct timespec){.tv_sec = now.tv_sec + more.tv_sec + ns / 1000000000,
                             .tv_nsec = ns % 1000000000};
}

int clock_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    int error = pthread_condattr_init(&monotonic);
    if (error) return error;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    error = pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return error;
}
