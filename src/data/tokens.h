/* Token files in llm.c's format: 256 int32 of header ([0] magic, [1] version, [2] number of tokens,
 * [3] vocabulary or 0 where the writer did not say), then the tokens:
 *
 *   magic 20240520, version 1   uint16
 *   magic 20240801, version 7   uint32
 *
 * A path may be a glob; the files it names, sorted, are one stream of tokens (shards).
 * Invariant: header and size are checked when a file is opened, every id against the vocabulary
 * when it is read; errors name file and offset, also of a file that is cut while it is used.
 * Cost: a read at a place (pread) for each sample, and one more where it goes on in the next file;
 * the first 128 files are held open, further ones are opened for each read. */
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

/* How many files there are, and the name of the i-th of them. */
size_t tokens_files(const tokens *t);
const char *tokens_file(const tokens *t, size_t i);

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

/* The same for a sample: inputs (T) from token `first` on, targets (T) from the next one on, in one
 * read. first + T is inside the stream (ASSERT). */
trine_status tokens_sample(const tokens *t, uint64_t first, size_t T, int32_t *inputs,
                           int32_t *targets, uint32_t vocab);

/* What files of tokens are told apart by. The hash is an XXH3 of size and content at 64 places of
 * 4 KiB, spread evenly from the first byte (the header) to the last; of a file of 256 KiB or less
 * it is of all bytes. So a shift, another length, another order or another text is seen for
 * certain, a few tokens that were changed in between are not. */
typedef struct {
    uint64_t files, tokens, bytes, hash;
} tokens_print;

/* *all = of the whole stream; each (tokens_files, may be NULL) = of each file. Paths do not matter,
 * their order does. Cost: 256 KiB of each file, asked for together: 0.2 ms a file that lies in memory,
 * 1 ms on a disk, whatever its size. Errors: TRINE_EIO. Not collective. */
trine_status tokens_fingerprint(const tokens *t, tokens_print *all, tokens_print *each);

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
