/* The words of a corpus, counted by several threads. Each thread has a counter, whose small table takes the frequent
 * words; when it is full its words go to the tables that all threads share, each under a lock of its own. So memory
 * grows with the number of different words, not with the texts or the threads; the sums do not depend on threads. */
#ifndef TRINE_TOKENIZER_WORD_COUNTS_H
#define TRINE_TOKENIZER_WORD_COUNTS_H

#include <pthread.h>

#include "tokenizer/tokenizer.h"
#include "tokenizer/word_table.h"

#define WORD_SHARDS 32 /* a power of two */

typedef struct {
    struct word_shard {
        pthread_mutex_t lock;
        word_table table; /* of the words whose tags have its number in their highest bits */
    } shards[WORD_SHARDS];
} word_counts;

/* Owned by the caller; NULL after an error. Errors: TRINE_ENOMEM. Not collective. */
trine_status word_counts_create(word_counts **c);
void word_counts_destroy(word_counts **c); /* *c may be NULL */

/* Number of different words whose count is not 0. No thread is counting. */
size_t word_counts_different(const word_counts *c);

typedef struct word_counter word_counter;

/* Owned by the caller; `into` must outlive it. Errors: TRINE_ENOMEM. Not collective. */
trine_status word_counter_create(word_counter **c, word_counts *into);
void word_counter_destroy(word_counter **c); /* *c may be NULL; what was not flushed is lost */

/* Counts the words of a part, unless its cut does not hold (encoder_words), and adds their number to *words. Errors:
 * those of encoder_words. Cost: a hash and a look-up a word. */
trine_status word_counter_part(word_counter *c, encoder *e, const encode_part *part, bool *holds, uint64_t *words);

/* Takes back what was counted for a part, by whichever counter; its words may remain with a count of 0. Errors: as
 * word_counter_part. */
trine_status word_counter_take_back(word_counter *c, encoder *e, const encode_part *part);

/* Hands everything on. Errors: TRINE_ENOMEM. */
trine_status word_counter_flush(word_counter *c);

#endif
