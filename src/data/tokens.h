/* Token files. The writer makes llm.c's format: 256 int32 of header ([0] magic, [1] version, [2] number of tokens,
 * [3] vocabulary size, or 0 if unknown, [4] and [5] the tokenizer's hash, low word first, or 0 if unknown),
 * then the tokens:
 *
 *   magic 20240520, version 1   uint16
 *   magic 20240801, version 7   uint32
 *
 * The reader also takes indexed datasets of Megatron-LM, a file X.bin with X.idx beside it, and files of uint16
 * without a header, as nanoGPT makes them, if their path is "nanogpt:FILE" (data/format.h), and files of windows,
 * which have masks and document boundaries beside the tokens (data/windows.h).
 *
 * A path may be a glob; the files that match, sorted, are one stream of tokens (shards) and have one format. If none
 * matches, X stands for X.bin, as in Megatron-LM.
 * Invariant: header, index and size are checked when a file is opened, every id against the vocabulary
 * when it is read; errors name file and offset, also when a file is truncated while in use.
 * Cost: one pread per sample, and one more where a sample continues in the next file; the first 128 files are
 * held open, any further file is opened for each read. */
#ifndef TRINE_DATA_TOKENS_H
#define TRINE_DATA_TOKENS_H

#include "base/whole_file.h"

typedef struct tokens tokens;

/* Opens all files of `path`. *out is owned by the caller.
 * Errors: TRINE_EIO (missing, unreadable), TRINE_EDATA (short, truncated, too long, wrong magic or
 * version, an index that does not fit, empty, several formats); the message names the file. Not collective. */
trine_status tokens_open(tokens **out, const char *path);
/* The same with the files of several paths, one after the other: what a shell makes of a pattern. count >= 1. */
trine_status tokens_open_all(tokens **out, char *const *paths, size_t count);
/* No files and no tokens: what a name is all of, where samples come from elsewhere. Errors: TRINE_ENOMEM. */
trine_status tokens_open_none(tokens **out, const char *name);
void tokens_close(tokens **t);

/* Tokens in all files. */
uint64_t tokens_count(const tokens *t);

/* T of files of windows, which have tokens_count / T of them; 0: the files have tokens only. Pure. */
uint32_t tokens_window(const tokens *t);
/* The supervised tokens of all windows, as the headers say. Pure. */
uint64_t tokens_supervised(const tokens *t);

/* The path given to tokens_open; of several, the first and the last. */
const char *tokens_path(const tokens *t);

/* The number of files, and the name of the i-th. */
size_t tokens_files(const tokens *t);
const char *tokens_file(const tokens *t, size_t i);

/* Whether `path` is one of its files, under any name. */
bool tokens_has_file(const tokens *t, const char *path);

/* *vocab = the largest vocabulary size in a header; a file whose header has none counts as its largest id + 1
 * (which reads that file once). Errors: TRINE_EDATA when an id is negative or not below INT32_MAX. */
trine_status tokens_vocab(const tokens *t, int *vocab);
/* The largest vocabulary size in a header; 0: no file has one. Pure. */
uint32_t tokens_stated_vocab(const tokens *t);

/* *hash = the hash (tokenizer_hash) of the tokenizer that made the tokens; 0 when no file has one. Files without a
 * hash are accepted beside files with one, whose hash counts: llm.c's own tools write none. Errors: TRINE_EDATA
 * names two files whose hashes differ. Pure. */
trine_status tokens_tokenizer(const tokens *t, uint64_t *hash);

/* out[i] = token first + i, i < count; [first, first + count) lies inside the stream (ASSERT).
 * Errors: TRINE_EDATA names file, byte offset and id when one is not below `vocab`. */
trine_status tokens_read(const tokens *t, uint64_t first, size_t count, int32_t *out,
                         uint32_t vocab);

/* The same for a sample: inputs (T) from token `first` on, targets (T) from token first + 1 on, in one
 * read. first + T is inside the stream (ASSERT). */
trine_status tokens_sample(const tokens *t, uint64_t first, size_t T, int32_t *inputs,
                           int32_t *targets, uint32_t vocab);

/* inputs, targets and starts of a window, as window_get gives them: one read. `window` is inside the stream (ASSERT).
 * Errors: TRINE_EDATA, the message names file, window and byte; TRINE_EIO, TRINE_ENOMEM. */
trine_status tokens_read_window(const tokens *t, uint64_t window, int32_t *inputs, int32_t *targets,
                                int32_t *starts, uint32_t vocab);
/* The number of its supervised tokens: one read of 8 bytes. Errors: TRINE_EDATA, TRINE_EIO. */
trine_status tokens_window_supervised(const tokens *t, uint64_t window, uint32_t *count);

/* A fingerprint of token files. The hash is XXH3 over the size and 64 blocks of 4 KiB, spread evenly from the
 * first byte (the header) to the last; for a file of 256 KiB or less over all bytes. It detects a shift, a
 * different length, order or text; it may miss a few changed tokens between the blocks. */
typedef struct {
    uint64_t files, tokens, bytes, hash;
} tokens_print;

/* *all = fingerprint of the stream; each (tokens_files, may be NULL) = of each file. Paths do not matter,
 * the order of files does. Cost: 256 KiB of each file, requested together: 0.2 ms per file in the page cache,
 * 1 ms on a disk, whatever its size. Errors: TRINE_EIO. Not collective. */
trine_status tokens_fingerprint(const tokens *t, tokens_print *all, tokens_print *each);

/* Writes a token file incrementally, in blocks; the file gets its name when it is complete (base/whole_file.h). */
typedef struct tokens_writer tokens_writer;

/* Starts a file of uint16 tokens (vocab <= 65536) or uint32. tokenizer_hash: of the tokenizer that makes the ids;
 * 0: unknown. Errors: TRINE_EINVAL for a vocabulary of 0 or above INT32_MAX; TRINE_EIO, TRINE_ENOMEM. */
trine_status tokens_writer_open(tokens_writer **w, const char *path, uint32_t vocab, uint64_t tokenizer_hash);
/* Errors: TRINE_EIO; TRINE_EDATA for an id that is not below the vocabulary. */
trine_status tokens_writer_add(tokens_writer *w, const int32_t *ids, size_t count);
/* Completes and renames the file; *w becomes NULL; on failure the file is removed. Errors:
 * TRINE_EIO, also when an earlier write failed; TRINE_EDATA when no token was added. */
trine_status tokens_writer_close(tokens_writer **w);
/* For a file of a set, which is under the set's lock (base/lock.h): it gets its name later, by whole_file_publish. */
trine_status tokens_writer_open_shard(tokens_writer **w, const char *path, uint32_t vocab, uint64_t tokenizer_hash);
/* The same for a file of windows of T tokens. Errors: as tokens_writer_open. */
trine_status windows_writer_open_shard(tokens_writer **w, const char *path, uint32_t T, uint32_t vocab,
                                       uint64_t tokenizer_hash);
/* ids (T), flags (T, of window_flag). Errors: TRINE_EIO; TRINE_EDATA for an id that is not below the vocabulary, and
 * as window_put. */
trine_status tokens_writer_add_window(tokens_writer *w, const int32_t *ids, const uint8_t *flags);
/* As tokens_writer_close, without the renaming: *file is owned by the caller; NULL after an error. */
trine_status tokens_writer_complete(tokens_writer **w, whole_file **file);
/* Destroys a writer and removes the unfinished file. */
void tokens_writer_discard(tokens_writer **w);

#endif
