/* The last line of a terminal, where progress is shown (base/progress.h): whoever prints something else, on standard
 * error too, erases it first. State of the process, since a terminal is. From any thread. Not collective. */
#ifndef TRINE_BASE_TERMINAL_LINE_H
#define TRINE_BASE_TERMINAL_LINE_H

#include <stdbool.h>
#include <stdio.h>

/* From here on the line is that of `out`; NULL: there is none. foreign: another process of the job draws it, and this
 * one only erases it. */
void terminal_line_use(FILE *out, bool foreign);
/* Where it is drawn; NULL: nowhere, or by another process. */
FILE *terminal_line_out(void);
bool terminal_line_shown(void);

/* Puts `text` in its place. */
void terminal_line_draw(const char *text);
/* Nothing happens if nothing stands there. */
void terminal_line_erase(void);

#endif
