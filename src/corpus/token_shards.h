/* A stream of tokens in one token file or several (data/tokens.h), all or nothing.
 *
 * With the stem "books_train" the files are books_train_000000.bin, books_train_000001.bin ..., or books_train.bin if
 * one is enough and numbers were not asked for. Until shards_publish they have other names (.shard and .unfinished at
 * the end), which the pattern books_train*.bin does not match. */
#ifndef TRINE_CORPUS_TOKEN_SHARDS_H
#define TRINE_CORPUS_TOKEN_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/tokens.h"

#define SHARD_PATH 4096 /* bytes of a file's name */

typedef struct {
    char stem[SHARD_PATH - 64];
    uint64_t limit; /* tokens of a file */
    bool numbered;  /* even if there is one file */
    uint32_t vocab;
    uint64_t hash; /* the tokenizer's */
    tokens_writer *writer;
    uint64_t in_file, tokens;
    size_t files;     /* started */
    size_t complete;  /* of them, that wait for their names */
    size_t published; /* of them, that have their names */
} shards;

/* Checks the stem: files of an earlier run that would be read together with the new ones are refused. Nothing is
 * written yet. `s` has limit (1 to INT32_MAX), numbered, vocab and hash, and 0 otherwise. Errors: TRINE_EINVAL,
 * TRINE_EIO. Not collective. */
trine_status shards_open(shards *s, const char *prefix, const char *name);

/* Errors: as tokens_writer_open and tokens_writer_add. Not collective. */
trine_status shards_add(shards *s, const int32_t *ids, size_t count);

/* Completes the last file. Not collective. */
trine_status shards_complete(shards *s);

/* Gives all files their names. Errors: TRINE_EIO. Not collective. */
trine_status shards_publish(shards *s);

/* Removes all files, unless all are published. Not collective. */
void shards_discard(shards *s);

/* The final name of a file. */
void shards_path(const shards *s, size_t file, char path[SHARD_PATH]);

#endif
