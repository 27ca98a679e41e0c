/* A file of options, @FILE on a command line: words as those of a POSIX shell. White space separates them; "...",
 * '...' and a backslash quote; # at the start of a word begins a comment, which ends with the line; nothing is
 * expanded, neither $NAME nor *.bin. A byte order mark of UTF-8 is skipped. */
#ifndef TRINE_BASE_OPTIONS_FILE_H
#define TRINE_BASE_OPTIONS_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "trine_types.h" /* trine_status */

#define OPTIONS_FILE_BYTES ((uint64_t)1 << 20) /* at most */

typedef struct {
    const char *path;
    char **words; /* [count] */
    int *lines;   /* [count] in which the words begin, from 1 */
    int count;
    bool of_run; /* a checkpoint's: what a run had, which nobody asks for again */
} options_file;

/* In the first line of a checkpoint's, behind "# Trine VERSION". */
#define OPTIONS_FILE_OF_RUN ": the options of this run after step "

/* *file is owned by the process and valid until it ends, since the values of options point into its words. A text
 * that was read before from the same path is not kept twice. Errors: TRINE_EIO, TRINE_EDATA name the file, and the
 * line of a quotation without an end; TRINE_ENOMEM. Not collective, not thread-safe. */
trine_status options_file_read(const options_file **file, const char *path);

/* The files that were read, one after another: NULL: the first one, or none is left. */
const options_file *options_file_next(const options_file *after);

/* Writes a word so that a POSIX shell and options_file_read read it: in single quotes unless all of its characters
 * are plain. */
void options_file_put(const char *word, FILE *out);

#endif
