/* A stream of tokens in one token file or several (data/tokens.h), all or nothing.
 *
 * With the stem "books_train" the files are books_train_000000.bin, books_train_000001.bin ..., or books_train.bin if
 * one is enough and numbers were not asked for. Until shards_publish they have names of their own
 * (base/whole_file.h). Who writes them has the lock of the prefix "books" (token_pair.h). */
#ifndef TRINE_CORPUS_TOKEN_SHARDS_H
#define TRINE_CORPUS_TOKEN_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/tokens.h"
#include "data/windows.h"

#define SHARD_PATH 4096 /* bytes of a file's name */

typedef struct {
    char stem[SHARD_PATH - 64];
    uint64_t limit; /* tokens of a file; of windows rounded down, but at least one */
    uint32_t window; /* T of windows; 0: tokens alone */
    bool numbered;  /* even if there is one file */
    uint32_t vocab;
    uint64_t hash; /* the tokenizer's */
    tokens_writer *writer;
    whole_file **complete; /* owned: [complete_count] files that wait for their names; NULL once they have them */
    size_t complete_count, capacity;
    uint64_t in_file, tokens;
    size_t files;     /* started */
    size_t published; /* have their names */
} shards;

/* Checks the stem: files of an earlier run that would be read together with the new ones are refused. What a killed
 * program left is removed. Nothing is written yet. `s` has limit (at least 1), numbered, vocab and hash, and 0
 * otherwise. Errors: TRINE_EINVAL, TRINE_EIO. Not collective. */
trine_status shards_open(shards *s, const char *prefix, const char *name);

/* Errors: as tokens_writer_open and tokens_writer_add. Not collective. */
trine_status shards_add(shards *s, const int32_t *ids, size_t count);

/* A window: ids and flags (T each, of window_flag). Errors: as windows_writer_open_shard and
 * tokens_writer_add_window. Not collective. */
trine_status shards_add_window(shards *s, const int32_t *ids, const uint8_t *flags);

/* Completes the last file. Not collective. */
trine_status shards_complete(shards *s);

/* Gives all files their names; after an error none has one. Errors: TRINE_EIO. Not collective. */
trine_status shards_publish(shards *s);

/* Removes the files that have no names yet. Not collective. */
void shards_discard(shards *s);
/* Removes the files that have names. Not collective. */
void shards_withdraw(shards *s);

/* The final name of a file. */
void shards_path(const shards *s, size_t file, char path[SHARD_PATH]);

/* Refuses files that an earlier run wrote under this stem, where this run writes none: they are no part of it. `why`
 * ends the message's first half: "--val-fraction 0 writes no such file". Errors: TRINE_EINVAL, TRINE_EIO. Not
 * collective. */
trine_status shards_expect_none(const char *prefix, const char *name, const char *why);

#endif
