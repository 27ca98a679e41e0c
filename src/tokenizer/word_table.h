/* A table of words and how often each occurs. For one thread. */
#ifndef TRINE_TOKENIZER_WORD_TABLE_H
#define TRINE_TOKENIZER_WORD_TABLE_H

#include <stdint.h>

#include "tokenizer/bump.h"

#include "trine_types.h" /* trine_status */

typedef struct {
    const char *text; /* owned by the table; no terminator */
    uint64_t count;
    uint32_t bytes;
    uint32_t tag; /* of the word's hash */
} word_row;

/* {0} is empty. Cost of a word: 24 bytes, 8 to 16 of the index, and its text. */
typedef struct {
    word_row *rows; /* [count], in the order in which they came; owned */
    size_t count, capacity;
    uint64_t *index; /* [size]: tag << 32 | row + 1; 0: free. Owned */
    size_t size;     /* a power of two, or 0 */
    bump texts;
} word_table;

/* Of the text; equal on all machines. Pure. */
uint32_t word_table_tag(const char *text, size_t bytes);

/* The word occurs `times` times more; `tag` is that of the text, which is copied if it is new. Errors:
 * TRINE_ENOMEM. */
trine_status word_table_add(word_table *t, const char *text, uint32_t bytes, uint32_t tag, uint64_t times);

/* Where the word will be looked for comes into the cache. */
static inline void word_table_prefetch(const word_table *t, uint32_t tag) {
    if (t->size) __builtin_prefetch(&t->index[tag & (t->size - 1)]);
}

/* Forgets all words; keeps some memory. */
void word_table_clear(word_table *t);
void word_table_free(word_table *t);

#endif
