#include "base/options_twice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"

typedef struct {
    char *value; /* NULL: the row was not given yet */
    options_place at;
} taken;

struct options_twice {
    size_t count;
    taken rows[];
};

options_twice *options_twice_create(size_t rows) {
    options_twice *t = calloc(1, sizeof *t + rows * sizeof *t->rows);
    if (t) t->count = rows;
    return t;
}

void options_twice_free(options_twice *t) {
    for (size_t i = 0; t && i < t->count; i++) free(t->rows[i].value);
    free(t);
}

/* "--lr 1" */
static void spell(char *text, size_t size, const options_place *at) {
    snprintf(text, size, "%.*s%s%.90s", (int)strcspn(at->argument, "="), at->argument,
             at->value ? " " : "", at->value ? at->value : "");
}

static bool same_file(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

static void say(char text[OPTIONS_TWICE], const options_place *old, const options_place *at) {
    char first[150], later[150];
    spell(first, sizeof first, old);
    spell(later, sizeof later, at);
    if (old->file)
        snprintf(text, OPTIONS_TWICE, "%s: line %d has %s; leave one of them out", later, old->line,
                 first);
    else if (at->file)
        snprintf(text, OPTIONS_TWICE, "%s is overridden by %s of %.120s, line %d", first, later,
                 at->file, at->line);
    else
        snprintf(text, OPTIONS_TWICE, "%s is overridden by %s, which comes after it", first, later);
}

bool options_twice_take(options_twice *t, size_t row, const char *value, options_place at,
                        char text[OPTIONS_TWICE], bool *wrong) {
    taken next = {.value = strdup(value), .at = at}, old = t->rows[row];
    if (at.value == value)
        at.value = next.at.value = next.value; /* which the caller's may not outlive */
    t->rows[row] = next;
    /* Without memory for a text two values are not compared. */
    bool differ = old.value && next.value && strcmp(old.value, next.value) != 0;
    bool told = differ && (!old.at.file || same_file(old.at.file, at.file));
    if (told) {
        say(text, &old.at, &at);
        *wrong = old.at.file != NULL;
    }
    free(old.value);
    return told;
}

void options_twice_print(const char *warnings) {
    if (environment_rank() <= 0) fputs(warnings, stderr);
}
