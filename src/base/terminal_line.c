#include "base/terminal_line.h"

#include <pthread.h>

#define ERASE_REST "\033[K"

static struct {
    FILE *out;
    bool foreign, shown;
    pthread_mutex_t lock;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. */
static void erase(void) {
    if (state.shown || (state.out && state.foreign)) {
        fputs("\r" ERASE_REST, state.out);
        fflush(state.out);
    }
    state.shown = false;
}

void terminal_line_use(FILE *out, bool foreign) {
    pthread_mutex_lock(&state.lock);
    if (state.shown) erase();
    state.out = out;
    state.foreign = foreign;
    pthread_mutex_unlock(&state.lock);
}

FILE *terminal_line_out(void) {
    pthread_mutex_lock(&state.lock);
    FILE *out = state.foreign ? NULL : state.out;
    pthread_mutex_unlock(&state.lock);
    return out;
}

bool terminal_line_shown(void) {
    pthread_mutex_lock(&state.lock);
    bool shown = state.shown;
    pthread_mutex_unlock(&state.lock);
    return shown;
}

void terminal_line_draw(const char *text) {
    pthread_mutex_lock(&state.lock);
    if (state.out && !state.foreign) {
        fprintf(state.out, "\r%s" ERASE_REST, text);
        fflush(state.out);
        state.shown = true;
    }
    pthread_mutex_unlock(&state.lock);
}

void terminal_line_erase(void) {
    pthread_mutex_lock(&state.lock);
    erase();
    pthread_mutex_unlock(&state.lock);
}
