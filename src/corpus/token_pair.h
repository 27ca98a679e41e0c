/* The token files PREFIX_train and PREFIX_val of one run, each of them one file or several: all of them are the
 * run's, or none. One program at a time writes under a prefix; another is refused. While the files get their names
 * no earlier file is beside a new one: a program that is killed then leaves training files of one run, or some
 * without the last ones, which a reader refuses (data/tokens.h). */
#ifndef TRINE_CORPUS_TOKEN_PAIR_H
#define TRINE_CORPUS_TOKEN_PAIR_H

#include "base/lock.h"
#include "corpus/token_shards.h"

typedef struct {
    name_lock *lock;
    shards train, val;
} token_pair;

/* Begins both, or only the training files if `val` is false: then validation files of an earlier run are refused.
 * `like` has what shards_open wants. To be discarded also after an error. Errors: TRINE_EBUSY names the program
 * that has the prefix; those of shards_open. Not collective. */
trine_status token_pair_open(token_pair *p, const char *prefix, const shards *like, bool val);

/* Completes all files and gives them their names. Errors: TRINE_EIO: none of them has a name. Not collective. */
trine_status token_pair_publish(token_pair *p);

/* Removes what has no name yet, and gives the prefix back. What was counted remains. Not collective. */
void token_pair_discard(token_pair *p);

#endif
