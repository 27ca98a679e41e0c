/* A token file for a benchmark: random tokens, because what is computed costs the same whatever the
 * text, in a new directory below the one that the user names. Nothing is left when it is removed.
 * Cost: two bytes a token. */
#ifndef TRINE_BENCH_TOKENFILE_H
#define TRINE_BENCH_TOKENFILE_H

#include <stddef.h>

#include "trine.h"

typedef struct {
    char dir[80], path[96]; /* dir: for further files of the caller */
} tokenfile;

/* Errors: TRINE_EIO when `dir` cannot be written to; TRINE_EINVAL when its name is too long. */
trine_status tokenfile_create(tokenfile *f, const char *dir, int vocabulary, size_t count);
/* Removes the file and the directory, which must be empty but for it. */
void tokenfile_remove(const tokenfile *f);

#endif
