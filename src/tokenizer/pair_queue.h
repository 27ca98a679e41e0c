/* The pairs of neighbouring symbols that training may still join: how often each occurs, and in which words; the most
 * frequent one first. Among equal counts the one with the smaller left id comes first, then the smaller right id.
 *
 * Invariant: a pair's count only falls, once it is there; a pair that occurs less often than `least` times is not
 * kept, as it will never be joined. Cost of each function: a look-up; what changes the order, log n steps. */
#ifndef TRINE_TOKENIZER_PAIR_QUEUE_H
#define TRINE_TOKENIZER_PAIR_QUEUE_H

#include <stdint.h>

#include "tokenizer/bump.h"

#include "trine_types.h" /* trine_status */

/* left << 32 | right. */
typedef uint64_t pair_key;

static inline pair_key pair_of(uint32_t left, uint32_t right) {
    return (uint64_t)left << 32 | right;
}

typedef struct {
    pair_key pair;
    uint64_t count; /* 0: the place of the table is free */
    uint32_t *words; /* [places]: numbers of the words that have it, at least; memory of the queue */
    uint32_t places;
} pair_row;

/* {.least = N}, N at least 1, is empty. */
typedef struct {
    uint64_t least;
    pair_row *rows; /* [size], a hash table; owned */
    size_t size, count;
    struct pair_entry {
        uint64_t count; /* the pair's or, if that has fallen, an earlier one */
        pair_key pair;
    } *heap; /* [heap_count]; owned */
    size_t heap_count, heap_capacity;
    bump lists;
} pair_queue;

/* A new pair that occurs `count` times, in `places` words: *words is where their numbers go, NULL: it is not kept.
 * Errors: TRINE_ENOMEM. */
trine_status pair_queue_add(pair_queue *q, pair_key pair, uint64_t count, uint32_t places, uint32_t **words);

/* The pair, if it is there, occurs so many times less. */
void pair_queue_lower(pair_queue *q, pair_key pair, uint64_t by);

/* Takes the first pair out. False: there is none. Its words remain until pair_queue_free. Errors of memory do not
 * occur: the heap only shrinks. */
bool pair_queue_take(pair_queue *q, pair_row *first);

void pair_queue_free(pair_queue *q);

#endif
