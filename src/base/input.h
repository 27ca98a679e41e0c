/* Reads files that other processes may change meanwhile: token files, weights, checkpoints. Files are read
 * with pread, never mapped: if a file is truncated, the result is an error that names it, where a mapping
 * would kill the process with SIGBUS. Only regular files are opened; opening never blocks on a pipe.
 *
 * Cost: one system call per read, some 0.3 us besides the copy. */
#ifndef TRINE_BASE_INPUT_H
#define TRINE_BASE_INPUT_H

#include "trine.h" /* trine_status */

/* Opens a regular file for reading; the caller owns *fd (close), *bytes is its size. Errors: TRINE_EIO,
 * the message starts with `path`; *fd is then -1. Not collective. */
trine_status input_open(int *fd, uint64_t *bytes, const char *path);

/* Reads `bytes` bytes at offset `place` into `to`. Errors: TRINE_EIO names the file and the byte, also
 * when the file is too short. Not collective. */
trine_status input_read(int fd, const char *path, void *to, size_t bytes, uint64_t place);

/* Reads a complete file of at most `limit` bytes. *text has room for one more byte; the caller owns it
 * (free); NULL after an error. Errors: TRINE_EIO; TRINE_EDATA when the file is longer; TRINE_ENOMEM. Not
 * collective. */
trine_status input_text(char **text, size_t *bytes, uint64_t limit, const char *path);

#endif
