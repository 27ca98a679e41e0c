/* Files that are read while others may change them: token files, weights, checkpoints. They are read
 * by pread, never mapped: a file that was cut behind our back is then an error with its name, where
 * a map would end the process by SIGBUS. Only regular files are opened, and no pipe is waited for.
 *
 * Cost: a system call for each piece that is read, some 0.3 us beside the copy. */
#ifndef TRINE_BASE_INPUT_H
#define TRINE_BASE_INPUT_H

#include "trine.h" /* trine_status */

/* Opens a regular file to read; *fd is owned by the caller (close), *bytes its size. Errors:
 * TRINE_EIO begins with `path`; nothing is open then. Not collective. */
trine_status input_open(int *fd, uint64_t *bytes, const char *path);

/* All of `to` (bytes) from byte `place` on. Errors: TRINE_EIO names file and byte, also where the
 * file ends before. Not collective. */
trine_status input_read(int fd, const char *path, void *to, size_t bytes, uint64_t place);

/* The whole of a file of at most `limit` bytes; *text (bytes, and one of memory behind them) is owned
 * by the caller (free), NULL after an error. Errors: TRINE_EIO; TRINE_EDATA when it is longer;
 * TRINE_ENOMEM. Not collective. */
trine_status input_text(char **text, size_t *bytes, uint64_t limit, const char *path);

#endif
