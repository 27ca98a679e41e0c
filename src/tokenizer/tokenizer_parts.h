/* What a tokenizer consists of, for the files of this folder. */
#ifndef TRINE_TOKENIZER_TOKENIZER_PARTS_H
#define TRINE_TOKENIZER_TOKENIZER_PARTS_H

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoders.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer.h"

struct tokenizer {
    char *path; /* owned, as all below */
    vocab words;
    added_list raw, normalized;
    normalizer_list normalizers;
    split_list splits;
    bpe model;
    token_list before, after; /* the template's */
    decode_list decoders;
    int32_t begin, end; /* of a document; -1: unknown */
    uint64_t hash;
};

/* read.c: an empty tokenizer, filled from tokenizer.json, or from GPT-2's vocabulary and merges. */
trine_status tokenizer_read_json(tokenizer *t, const char *json, size_t bytes);
trine_status tokenizer_read_gpt2(tokenizer *t, const char *vocabulary, size_t vocabulary_bytes, const char *merges,
                                 size_t merges_bytes);

/* template.c: tokenizer.json's "post_processor". */
trine_status tokenizer_read_template(tokenizer *t, const cJSON *entry);

/* hash.c. Errors: TRINE_ENOMEM. */
trine_status tokenizer_make_hash(tokenizer *t);

#endif
