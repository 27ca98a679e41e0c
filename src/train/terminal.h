/* Whether a person watches, and the line that a progress bar stands on. */
#ifndef TRINE_TRAIN_TERMINAL_H
#define TRINE_TRAIN_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Whether what this process writes to `out` ends at a terminal. Not collective. */
bool terminal_is(FILE *out);

/* Wipes the bar that may stand where the next line will, if `out` is a terminal. Not collective. */
void terminal_clear(FILE *out);

#endif
