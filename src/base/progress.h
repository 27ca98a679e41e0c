/* A progress bar: one line at the bottom of a terminal, which is rewritten.
 *
 *     step 120/900 [#####.................................]  13%  2 min 5 s left | loss 2.481 | 5031 tokens/s
 *
 * What does not fit in the terminal's width is left out from the end, then the bar becomes shorter; no line wraps,
 * and a resized terminal shows with the next line. Blocks of UTF-8 where the locale's variables name it, else ASCII.
 *
 * The line itself is that of base/terminal_line.h, and state of the process as that is; without progress_begin
 * nothing is drawn. For one thread at a time. Not collective. */
#ifndef TRINE_BASE_PROGRESS_H
#define TRINE_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trine_types.h" /* trine_progress */

/* The words of --progress. */
#define PROGRESS_WORDS {"auto", "line", "bar"}

/* Whether bars are drawn on `out`: if it is a terminal, with TRINE_PROGRESS_BAR always, with TRINE_PROGRESS_LINE
 * never. */
bool progress_wanted(FILE *out, trine_progress how);
/* From here on they are drawn there, if they are wanted. draws false: another process of the job draws them. */
void progress_begin(FILE *out, trine_progress how, bool draws);

/* Draws the line; share from 0 to 1, NAN: without a bar. parts (count): the most important first. All texts are
 * ASCII. A line that would follow another one within a tenth of a second is not drawn. */
void progress_show(const char *label, double share, const char *const *parts, int count);
/* The same of a task, `done` of `all` bytes, with the time that is left; the task begins with the first call of this
 * `what`, which is kept by reference. When all is done the line is erased. */
void progress_bytes(const char *what, uint64_t done, uint64_t all);

/* The line for a terminal of so many columns: at most columns - 1 of them. Returns how many it takes. Pure. */
int progress_line(char *text, size_t size, int columns, bool utf8, const char *label, double share,
                  const char *const *parts, int count);

#endif
