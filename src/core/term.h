/* Sums of micro-batches as terms: which numbers a sum has, in which order they are added, where it is rounded. Values
 * are symbols: g3 is what micro-batch 3 contributes to a gradient, whichever gradient it is.
 *
 *   own m      what micro-batch m of a rank contributes; the rank is open
 *   number n   what micro-batch n of the step contributes
 *   a + b      their sum, rounded to the accumulator's type; a + b and b + a are one term
 *   a += b     b added to a where a lies, row by row: (a + b1) + b2, not a + (b1 + b2); printed as a + b
 *   16(a)      a, rounded to 16 bits
 *   any(a, b)  a sum in an order that a library chooses, with what that depends on
 *
 * Equal terms are one number of the pool (hash consing: Filliâtre and Conchon, "Type-safe modular hash-consing", ML
 * 2006), so that sums which all units share cost their memory once. Setting is not adding to 0: the first addend of a
 * sum is no node of its own. Invariant: two sums have the same term exactly if they add the same contributions in the
 * same order. Cost: 40 bytes and some 50 ns a node. */
#ifndef TRINE_CORE_TERM_H
#define TRINE_CORE_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trine_types.h"

typedef int32_t term;
#define TERM_NONE (-1)

typedef enum { TERM_OWN, TERM_NUMBER, TERM_ADD, TERM_ONTO, TERM_ROUND, TERM_ANY } term_kind;

typedef struct {
    int32_t kind, a, b; /* a, b: terms; OWN, NUMBER: a is the micro-batch; ANY: b is the label */
    uint64_t sum;       /* of a hash of each micro-batch that it has: equal for any order of the same ones */
    int32_t count;      /* of micro-batches */
    int32_t next;       /* in the same bucket */
} term_node;

/* `out of memory` is noted and returned by the last call, so that sums can be written as expressions. */
typedef struct {
    term_node *nodes; /* owned */
    int32_t count, capacity;
    int32_t *buckets; /* owned; a power of two */
    int32_t bucket_count;
    bool failed;
} term_pool;

void term_create(term_pool *pool);
void term_destroy(term_pool *pool);
/* Errors: TRINE_ENOMEM if a term could not be made. */
trine_status term_status(const term_pool *pool);

/* Each returns TERM_NONE without memory, and for operands that are. Pure but for the pool. */
term term_own(term_pool *pool, int micro);
term term_number(term_pool *pool, int number);
term term_add(term_pool *pool, term a, term b);
term term_onto(term_pool *pool, term a, term b);
term term_round(term_pool *pool, term a);
/* a continues an earlier sum of the label, or is a single addend. */
term term_any(term_pool *pool, term a, term b, int label);

/* `a` with each own micro-batch m replaced by number[m]. */
term term_of_rank(term_pool *pool, term a, const int *number);

/* Whether it has own micro-batch m. Cost: its size. Pure. */
bool term_has_own(const term_pool *pool, term a, int micro);

/* Whether it has each of the numbers [0, count) once, and nothing else. Pure. */
bool term_complete(const term_pool *pool, term a, int count);
/* times[n] (count) = how often it has each number; other numbers are ignored. */
void term_times(const term_pool *pool, term a, int *times, int count);

/* "((g0 + g2) + (g1 + g3))"; additions from left to right share parentheses, "(g0 + g1 + g2)", and of more than
 * `most` addends in one the last follows "...". */
void term_print(const term_pool *pool, term a, int most, FILE *out);

#endif
