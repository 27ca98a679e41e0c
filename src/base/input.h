/* Reads files that other processes may change meanwhile: token files, weights, checkpoints. Files are read
 * with pread, never mapped: if a file is truncated, the result is an error that names it, where a mapping
 * would kill the process with SIGBUS. Only regular files are opened, but for input_stream; opening never
 * blocks, on a pipe without a writer neither. What was opened is checked, not the name. No other file of the
 * library and the tools opens files for reading, except in /proc and /sys (tools/layers.awk).
 *
 * Cost: one system call per read, some 0.3 us besides the copy. */
#ifndef TRINE_BASE_INPUT_H
#define TRINE_BASE_INPUT_H

#include <stdbool.h>

#include "trine_types.h" /* trine_status */

/* Opens a regular file for reading; the caller owns *fd (close), *bytes is its size. Errors: TRINE_EIO,
 * the message starts with `path`; *fd is then -1. Not collective. */
trine_status input_open(int *fd, uint64_t *bytes, const char *path);

/* The same for a file that may not be there: *fd is then -1, without an error (ENOENT, ESTALE). A link is refused,
 * not followed. Errors: TRINE_EIO. Not collective. */
trine_status input_find(int *fd, const char *path);

/* Opens a file, or where the user may name one a pipe or a terminal; the caller owns *fd (close). *waits: reading may
 * have to wait (poll), and until then gives EAGAIN; a pipe that no writer has opened yet waits as well. Errors:
 * TRINE_EIO, also for a folder; *fd is then -1. Not collective. */
trine_status input_stream(int *fd, bool *waits, const char *path);

/* Whether `path` is a name of the open file, itself and not by a link: another process may have removed or replaced
 * it since. Not collective. */
bool input_is_named(int fd, const char *path);

/* For inside.h. Opens a file of an open folder, not through a link: -1 with errno ELOOP for one. Not collective. */
int input_open_at(int folder, const char *name);
/* Checks what was just opened, or reports the errno of that: as input_open, which closes and sets *fd to -1 after an
 * error. */
trine_status input_take(int *fd, uint64_t *bytes, const char *path);

/* Reads `bytes` bytes at offset `place` into `to`. Errors: TRINE_EIO names the file and the byte, also
 * when the file is too short. Not collective. */
trine_status input_read(int fd, const char *path, void *to, size_t bytes, uint64_t place);

/* Reads a complete file of at most `limit` bytes. *text has room for one more byte; the caller owns it
 * (free); NULL after an error. Errors: TRINE_EIO; TRINE_EDATA when the file is longer; TRINE_ENOMEM. Not
 * collective. */
trine_status input_text(char **text, size_t *bytes, uint64_t limit, const char *path);
/* The same of an open file of `size` bytes. */
trine_status input_whole(int fd, uint64_t size, char **text, size_t *bytes, uint64_t limit, const char *path);

#endif
