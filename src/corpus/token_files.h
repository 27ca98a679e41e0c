/* Inputs to token files, by a tokenizer: what trine-tokens --tokenizer does, without its command line. Conversations
 * become files of windows (data/windows.h). */
#ifndef TRINE_CORPUS_TOKEN_FILES_H
#define TRINE_CORPUS_TOKEN_FILES_H

#include "corpus/corpus.h"
#include "corpus/holdout.h"
#include "corpus/pack.h"
#include "corpus/token_pair.h"

/* Fewer text files, and no JSON lines: validation takes blocks, not documents. */
#define TOKEN_FILES_FEW ((size_t)100)

typedef enum { SPLIT_AUTO, SPLIT_DOCUMENTS, SPLIT_BLOCKS } token_split;

typedef struct {
    const char *prefix;
    double val_fraction;
    token_split split;
    uint64_t shard_tokens; /* 0: 2^30, and numbers only if one file is not enough */
    corpus_settings encode;
    pack_mode pack; /* of conversations */
    corpus_watch watch;
} token_files_settings;

/* A part of conversations. */
typedef struct {
    uint64_t rows, tokens, supervised;
} token_files_part;

typedef struct {
    corpus_counts counts;
    token_pair pair; /* what it counted */
    bool blocks; /* what validation took */
    token_files_part train, val; /* of conversations */
} token_files;

/* Writes PREFIX_train.bin and PREFIX_val.bin, or numbered files (token_shards.h): all of them or, after an error,
 * none. Errors: those of corpus_encode, shards_add, pack_write and token_pair_open; TRINE_EINVAL when an output is
 * also an input, or when nothing is left for training or validation. Not collective. */
trine_status token_files_write(token_files *files, const tokenizer *t, const inputs *in,
                               const token_files_settings *s);

#endif
