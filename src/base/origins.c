#include "base/origins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *option, *path;
} origin;

/* Static because a process has one command line. */
static origin all[ORIGINS_MOST];
static size_t count;

void origins_forget(const char *option) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].option, option) != 0)
            all[kept++] = all[i];
        else
            free(all[i].option), free(all[i].path);
    }
    count = kept;
}

void origins_add(const char *option, const char *path) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(all[i].option, option) && !strcmp(all[i].path, path)) return;
    if (count == ORIGINS_MOST || !*path) return;
    origin next = {strdup(option), strdup(path)};
    if (next.option && next.path)
        all[count++] = next;
    else
        free(next.option), free(next.path);
}

/* The bytes of the path if the message is about it: behind a path stands what is wrong with it, a line, or the rest of
 * the path of what is in it. A word of a sentence may be the name of a file, but hardly one with a dot or a slash. */
static size_t matches(const origin *o, const char *message) {
    size_t bytes = strlen(o->path);
    if (strncmp(message, o->path, bytes) != 0) return 0;
    char next = message[bytes];
    bool about = next == ':' || next == ',' || next == '/' || o->path[bytes - 1] == '/';
    return about || (next == ' ' && strpbrk(o->path, "./")) ? bytes : 0;
}

bool origins_of(const char *message, char *options, size_t size) {
    size_t best = 0, used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = matches(&all[i], message);
        if (bytes > best) best = bytes;
    }
    for (size_t i = 0; best && i < count && used < size; i++)
        if (matches(&all[i], message) == best)
            used += (size_t)snprintf(options + used, size - used, "%s%s", used ? " and " : "",
                                     all[i].option);
    return best > 0;
}
