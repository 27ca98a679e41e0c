/* Token files in llm.c's format, memory-mapped: 256 int32 of header ([0] magic, [1] version, [2]
 * number of tokens, [3] vocabulary or 0 where the writer did not say), then the tokens:
 *
 *   magic 20240520, version 1   uint16
 *   magic 20240801, version 7   uint32
 *
 * A path may be a glob; the files it names, sorted, are one stream of tokens (shards).
 * Invariant: header and size are checked when a file is opened, every id against the vocabulary
 * when it is read; errors name file and offset. Cost: nothing is read before it is asked for. */
#ifndef TRINE_DATA_TOKENS_H
#define TRINE_DATA_TOKENS_H

#include "trine.h"

typedef struct tokens tokens;

/* Opens all files of `path`. *out is owned by the caller.
 * Errors: TRINE_EIO (missing, unreadable), TRINE_EDATA (short, truncated, too long, wrong magic or
 * version, empty); the message names the file. Not collective. */
trine_status tokens_open(tokens **out, const char *path);
void tokens_close(tokens **t);

/* Tokens in all files. */
uint64_t tokens_count(const tokens *t);

/* The path it was opened with. */
const char *tokens_path(const tokens *t);

/* Whether `path` is one of its files, by whatever name. */
bool tokens_has_file(const tokens *t, const char *path);

/* *vocab = the largest vocabulary that a header names, or one more than the largest id where a
 * header names none (which reads that file once). Errors: TRINE_EDATA when an id exceeds INT32_MAX.
 */
trine_status tokens_vocab(const tokens *t, int *vocab);

/* out[i] = token first + i, i < count; [first, first + count) lies inside the stream (ASSERT).
 * Errors: TRINE_EDATA names file, byte offset and id when one is not below `vocab`. */
trine_status tokens_read(const tokens *t, uint64_t first, size_t count, int32_t *out,
                         uint32_t vocab);

/* Writes a token file piece by piece; it gets its name when it is complete. */
typedef struct tokens_writer tokens_writer;

/* Starts a file of uint16 tokens (vocab <= 65536) or uint32. Errors: TRINE_EINVAL for a vocabulary
 * of 0 or above INT32_MAX; TRINE_EIO, TRINE_ENOMEM. */
trine_status tokens_writer_open(tokens_writer **w, const char *path, uint32_t vocab);
/* Errors: TRINE_EIO; TRINE_EDATA for an id that is not below the vocabulary. */
trine_status tokens_writer_add(tokens_writer *w, const int32_t *ids, size_t count);
/* Completes and names the file; *w becomes NULL, and there is no file when this fails. Errors:
 * TRINE_EIO; TRINE_EDATA when no token was added. */
trine_status tokens_writer_close(tokens_writer **w);
/* Ends a writer without leaving a file. */
void tokens_writer_discard(tokens_writer **w);

#endif
