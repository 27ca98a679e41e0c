/* Output files of lines: a log, a profile; or of records. A line is in the file completely or not at all: when a
 * write fails (a full disk, ...) its partial line is removed, so that the next line can be tried. Opening a file
 * does not change it: a caller with several files
 * first locks each (output_lock), and then calls output_begin.
 *
 * Cost: one unbuffered write per line, no fsync. Not collective. */
#ifndef TRINE_BASE_OUTPUT_H
#define TRINE_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "trine_types.h" /* trine_status */

typedef struct {
    const char *option; /* "--log", for messages */
    char *path;
    int fd;
    struct stat is; /* as of opening */
    off_t end;      /* of the last complete line; regular files only */
    bool torn;      /* a partial line is at the end and cannot be removed */
    bool begun;     /* output_begin was called */
} output;

/* Opens or creates `path`; a pipe must have a reader, for which it waits a little. The caller owns *o, NULL after an
 * error; `option` is kept by reference. Errors: TRINE_EIO, TRINE_ENOMEM. */
trine_status output_open(output **o, const char *option, const char *path);
void output_close(output **o); /* *o may be NULL */

/* Opens a pipe or a device for writing. A pipe's reader may be on its way, as in `cat pipe & ... --log pipe`: so long
 * it is waited for, but no longer. Returns -1 with errno EPIPE if nobody reads the pipe. */
int output_open_special(const char *path);
#define OUTPUT_READER_SECONDS 5
/* What the errno of that means. Pure. */
const char *output_cause(int error);

/* Takes the file's lock, if it is a regular file: two programs that write lines at places of their own would mix
 * them. Where the file system has no locks, that is said once on standard error. Errors: TRINE_EBUSY names the
 * owner. */
trine_status output_lock(output *o);

/* Truncates a regular file to `end`; lines follow there. Errors: TRINE_EIO. */
trine_status output_begin(output *o, off_t end);

/* Appends a line, given without its newline. Errors: TRINE_EIO with option, path and the system's message
 * (also for a pipe without a reader: no SIGPIPE is delivered); TRINE_ENOMEM. */
trine_status output_line(output *o, const char *line);
/* The same of bytes, with no newline: of a file of records, which is a regular file. */
trine_status output_bytes(output *o, const char *bytes, size_t count);

/* Flushes `out` and reports any failed write. Errors: TRINE_EIO. */
trine_status output_flushed(FILE *out);
/* Writes the text and flushes it. MPICH 4 makes stdout unbuffered; then the write itself fails, not the flush.
 * Errors: TRINE_EIO. Not collective. */
trine_status output_text(FILE *out, const char *text, size_t bytes);

/* Ignores SIGXFSZ, unless the program has set its own handling: a write beyond the file size limit
 * (ulimit -f) then fails with EFBIG instead of killing the process. */
void output_limits_are_errors(void);

#endif
