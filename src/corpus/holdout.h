/* Which tokens are for validation: a fraction of units, evenly spread over the whole corpus.
 *
 * A unit is a document, so that no document is in both parts; or a block of HOLDOUT_BLOCK tokens, for a corpus of a
 * few long documents. Unit n (from 0) is for validation if the fractional part of (n + 1) times the golden ratio is
 * below the fraction: such numbers fill the interval evenly and never repeat (Fibonacci hashing), so any stretch of
 * units has its share, no period in the corpus meets one of the rule, and the choice depends neither on the tokenizer
 * (for documents) nor on the corpus's size. What a smaller fraction takes, a larger one takes, too. */
#ifndef TRINE_CORPUS_HOLDOUT_H
#define TRINE_CORPUS_HOLDOUT_H

#include "corpus/token_shards.h"

#define HOLDOUT_BLOCK ((size_t)1024)

typedef struct {
    double fraction; /* from 0 to 1 */
    bool blocks;     /* units are blocks, not documents */
    shards *train, *val;
    uint64_t unit;
    size_t filled; /* tokens of the present block */
} holdout;

/* Whether the unit is for validation. Pure. */
bool holdout_takes(uint64_t unit, double fraction);

/* The next tokens of a document; `ends`: the last ones. Errors: as shards_add. Not collective. */
trine_status holdout_add(holdout *h, const int32_t *ids, size_t count, bool ends);

#endif
