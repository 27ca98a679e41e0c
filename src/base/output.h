/* Files of lines beside checkpoints: a log, a profile. A line is in the file whole or not at all:
 * where a disk has no room (or any other write fails) what was written of it is taken back, so that
 * the next line may try again. To open a file changes nothing in it: who opens several looks first
 * whether two of them are one, and only then begins them.
 *
 * Cost: a write a line, straight to the file, which does not wait for the disk. Not collective. */
#ifndef TRINE_BASE_OUTPUT_H
#define TRINE_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "trine.h" /* trine_status */

typedef struct {
    const char *option; /* "--log", for messages */
    char *path;
    int fd;
    struct stat is; /* since it was opened */
    off_t end;      /* of the last whole line; regular files only */
    bool torn;      /* a part of a line stands at the end, and cannot be taken back */
    bool begun;     /* output_begin was called */
} output;

/* Opens or creates `path`. A pipe is opened when its reader is there. *o is owned by the caller, NULL
 * after an error; `option` is kept. Errors: TRINE_EIO, TRINE_ENOMEM. */
trine_status output_open(output **o, const char *option, const char *path);
void output_close(output **o); /* *o may be NULL */

/* Whether both (either may be NULL) are one regular file, by whatever names. Pure. */
bool output_same(const output *a, const output *b);

/* What is behind `end` is gone, and lines follow there. What is no regular file is left as it is.
 * Errors: TRINE_EIO. */
trine_status output_begin(output *o, off_t end);

/* Adds a line, given without its end. Errors: TRINE_EIO, with the option, the path and the system's
 * word (also for a pipe whose reader has gone: no signal comes of it); TRINE_ENOMEM. */
trine_status output_line(output *o, const char *line);

/* Whether all that was printed on `out` has arrived. Errors: TRINE_EIO. */
trine_status output_flushed(FILE *out);
/* Writes the text and flushes it. MPI may have taken stdout's buffer away (MPICH 4), and then it is the write
 * that fails. Errors: TRINE_EIO. Not collective. */
trine_status output_text(FILE *out, const char *text, size_t bytes);

/* From now on a write that exceeds the limit of a file's size (ulimit -f) fails with EFBIG, in all
 * of this process, instead of ending it: SIGXFSZ is ignored, unless the program has chosen what it
 * does. */
void output_limits_are_errors(void);

#endif
