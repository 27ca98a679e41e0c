#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"

typedef struct {
    void *(*run)(void *context);
    void *context;
    char job[]; /* environment_job of the thread that makes this one */
} start;

static _Thread_local const start *own; /* NULL: another program's thread */

bool thread_is_own(void) {
    return own != NULL;
}

const char *thread_job(void) {
    return own ? own->job : "";
}

static void *begin(void *context) {
    start *s = context;
    own = s;
    void *result = s->run(s->context);
    own = NULL;
    free(s);
    return result;
}

static void block_others(sigset_t *before) {
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof synchronous / sizeof *synchronous; i++)
        sigdelset(&blocked, synchronous[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before); /* a thread inherits the mask of its maker */
}

int thread_start(pthread_t *thread, void *(*run)(void *context), void *context) {
    const char *job = environment_job();
    size_t bytes = strlen(job) + 1;
    start *s = malloc(sizeof *s + bytes);
    sigset_t before;
    if (!s) return ENOMEM;
    s->run = run;
    s->context = context;
    memcpy(s->job, job, bytes);
    block_others(&before);
    int error = pthread_create(thread, NULL, begin, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) free(s);
    return error;
}
