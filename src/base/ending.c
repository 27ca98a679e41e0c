#include "base/ending.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"

/* Signals that follow each other faster are one request: timeout(1) sends its signal twice. */
#define TOGETHER 0.1
/* The launcher reads standard error from a pipe; what it has not read when it ends the job is lost. Ranks that say
 * nothing leave later. */
#define LINGER_SAYS   0.3
#define LINGER_SILENT 1.0
/* Files may appear in a folder while it is being removed. */
#define TRIES 1000

static struct {
    ending how;
    char **paths; /* owned, with the texts */
    size_t count, room;
    bool done;
    double first; /* when the first signal arrived; 0: none. Only the signal thread's */
    pthread_mutex_t lock;
} state = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

/* ---- What is unfinished ---------------------------------------------------------------------- */

void ending_add(const char *path) {
    pthread_mutex_lock(&state.lock);
    if (state.count == state.room) {
        size_t room = 2 * state.room + 16;
        char **paths = realloc(state.paths, room * sizeof *paths);
        if (paths) state.paths = paths;
        if (paths) state.room = room;
    }
    char *copy = state.count < state.room ? strdup(path) : NULL;
    if (copy) state.paths[state.count++] = copy;
    pthread_mutex_unlock(&state.lock);
}

/* With the lock. */
static void drop_at(size_t at) {
    free(state.paths[at]);
    state.count--;
    memmove(state.paths + at, state.paths + at + 1, (state.count - at) * sizeof *state.paths);
    if (state.count) return;
    free(state.paths);
    state.paths = NULL;
    state.room = 0;
}

void ending_drop(const char *path) {
    pthread_mutex_lock(&state.lock);
    size_t at = state.count;
    while (at && strcmp(state.paths[at - 1], path)) at--;
    if (at) drop_at(at - 1);
    pthread_mutex_unlock(&state.lock);
}

static void empty_folder(const char *path) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *all = folder >= 0 ? fdopendir(folder) : NULL;
    for (struct dirent *entry; all && (entry = readdir(all));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            unlinkat(folder, entry->d_name, 0);
    if (all)
        closedir(all);
    else if (folder >= 0)
        close(folder);
}

static void remove_path(const char *path) {
    if (!unlink(path) || (errno != EISDIR && errno != EPERM)) return;
    for (int i = 0; i < TRIES && rmdir(path) && (errno == ENOTEMPTY || errno == EEXIST); i++)
        empty_folder(path);
}

/* ---- The end --------------------------------------------------------------------------------- */

static bool say(int number) {
    char text[600];
    if (state.how.may_say && !state.how.may_say(0)) return false;
    snprintf(text, sizeof text, "%s: interrupted; %s", signals_name(number),
             state.done ? "what was to be written is complete" : state.how.word);
    signals_say(text);
    return true;
}

/* The lock stays taken: no other thread publishes or prints an error any more. */
static _Noreturn void end_by(int number) {
    while (state.count) remove_path(state.paths[--state.count]);
    bool said = say(number);
    if (state.how.launched && state.how.launched() > 1)
        clock_nap(said ? LINGER_SAYS : LINGER_SILENT);
    signals_end(number);
}

static double heard(int number) {
    double now = clock_seconds();
    bool again = state.first > 0 && now - state.first > TOGETHER;
    if (!(state.first > 0)) state.first = now;
    if (!again) pthread_mutex_lock(&state.lock);
    if (again || !state.done) end_by(number);
    pthread_mutex_unlock(&state.lock);
    return 0;
}

trine_status ending_catch(const ending *e) {
    state.how = *e;
    return signals_catch(heard, true);
}

/* ---- Publishing ------------------------------------------------------------------------------ */

void ending_hold(void) {
    pthread_mutex_lock(&state.lock);
}

void ending_release(void) {
    pthread_mutex_unlock(&state.lock);
}

void ending_done(void) {
    ending_hold();
    state.done = true;
    ending_release();
}
