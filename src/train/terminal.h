/* Terminal detection, and the line of the progress bar. */
#ifndef TRINE_TRAIN_TERMINAL_H
#define TRINE_TRAIN_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Whether output to `out` goes to a terminal. Not collective. */
bool terminal_is(FILE *out);

/* Erases the progress bar, if `out` is a terminal. Not collective. */
void terminal_clear(FILE *out);

#endif
