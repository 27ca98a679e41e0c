/* Options that a command line has twice, under one name or two, with different values: the later one counts, which
 * scripts rely on ("$@" behind defaults, a layout behind the one that was asked for), and a warning says so. What
 * overrides an option of an @FILE was written to do that; in one @FILE two values are a mistake. */
#ifndef TRINE_BASE_OPTIONS_TWICE_H
#define TRINE_BASE_OPTIONS_TWICE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct options_twice options_twice;

/* Where an option stands, and how it is written there. */
typedef struct {
    const char *file; /* NULL: the command line */
    int line;
    const char *argument; /* "--lr=1", or "--lr" and its value behind it */
    const char *value;    /* as it is shown; NULL: none */
} options_place;

#define OPTIONS_TWICE 480 /* bytes of a message */

/* For so many rows. NULL: no memory. Owned by the caller (options_twice_free). */
options_twice *options_twice_create(size_t rows);

/* The row has a value, of which equal texts are equal values. True: it had another one before; `text` says both, and
 * *wrong whether they stand in one file. */
bool options_twice_take(options_twice *t, size_t row, const char *value, options_place at,
                        char text[OPTIONS_TWICE], bool *wrong);

void options_twice_free(options_twice *t);

/* Prints warnings on standard error, of a launcher's ranks on the first one. Not collective. */
void options_twice_print(const char *warnings);

#endif
