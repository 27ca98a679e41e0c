/* The tokens of a tokenizer: text to id and back. A model's tokens and added ones share it. */
#ifndef TRINE_TOKENIZER_VOCABULARY_H
#define TRINE_TOKENIZER_VOCABULARY_H

#include "base/json.h"
#include "tokenizer/text.h"

typedef enum { VOCAB_MODEL = 1, VOCAB_ADDED = 2, VOCAB_SPECIAL = 4 } vocab_flag;

typedef struct {
    text_buffer texts;
    struct vocab_token {
        uint32_t at, length;
        unsigned char flags; /* vocab_flag; 0: there is no such id */
    } *tokens;               /* [size] */
    int32_t *table;          /* [table_size]: ids by the hash of their texts; -1: free */
    uint32_t size, table_size;
} vocab;

/* Makes room for `tokens` tokens with ids below *size, which may not be more than twice as many and 1024: no memory
 * is allocated by a number in a file. Errors: TRINE_EDATA, TRINE_ENOMEM. */
trine_status vocab_create(vocab *v, size_t tokens, uint64_t size, const char *path);
void vocab_free(vocab *v);

/* Errors: TRINE_EDATA when the id, or the text, is there already; TRINE_ENOMEM. */
trine_status vocab_add(vocab *v, const char *text, size_t length, uint64_t id, unsigned flags, const char *path);

/* The id of the token; -1: there is none. */
int32_t vocab_find(const vocab *v, const char *text, size_t length);
/* The same among the model's own tokens. */
int32_t vocab_find_model(const vocab *v, const char *text, size_t length);

/* The text of an id, without a terminator; NULL: there is none. */
const char *vocab_text(const vocab *v, int32_t id, size_t *length);
bool vocab_is(const vocab *v, int32_t id, unsigned flags);

#endif
