/* A token file for a benchmark, in a new directory inside the one that the user names. Tokens are random: the cost of
 * a step does not depend on the text. Cost: two bytes a token. */
#ifndef TRINE_BENCH_TOKENFILE_H
#define TRINE_BENCH_TOKENFILE_H

#include <stddef.h>

#include "trine.h"

typedef struct {
    char dir[80], path[96]; /* dir: for further files of the caller */
} tokenfile;

/* Errors: TRINE_EIO if `dir` cannot be written to; TRINE_EINVAL if its path is too long. */
trine_status tokenfile_create(tokenfile *f, const char *dir, int vocabulary, size_t count);
/* Removes the file and the directory, which must contain nothing else. */
void tokenfile_remove(const tokenfile *f);

#endif
