#include "base/files.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static files_call latest = {.text = "a file"};

void files_begin(const char *call, const char *path) {
    const size_t room = FILES_TEXT - strlen(" of ...") - strlen(call) - 1;
    size_t length = strlen(path);
    pthread_mutex_lock(&lock);
    if (length > room)
        snprintf(latest.text, sizeof latest.text, "%s of ...%s", call, path + (length - room));
    else
        snprintf(latest.text, sizeof latest.text, "%s of %s", call, path);
    latest.number++;
    pthread_mutex_unlock(&lock);
}

void files_now(files_call *now) {
    pthread_mutex_lock(&lock);
    *now = latest;
    pthread_mutex_unlock(&lock);
}
