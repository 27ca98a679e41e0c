/* Values to move and add whose results are known in closed form, so that a check of any result costs
 * one pass and no second communication.
 *
 * Element i of rank r's source is i mod 251 + 256 r. The period is prime: no part of a power of two
 * looks like another, so that what is shifted, exchanged or missing is seen. A piece of one rank's
 * source is pattern_of_rank, the sum over all ranks pattern_of_sum.
 * Invariant: all sums of up to PATTERN_RANKS such values are exact in fp32, in any order.
 * Cost: one pass each. */
#ifndef TRINE_BENCH_COMM_PATTERN_H
#define TRINE_BENCH_COMM_PATTERN_H

#include <stddef.h>

#define PATTERN_RANKS 256

/* Element i is scale * (i mod 251) + offset. */
typedef struct {
    float scale, offset;
} pattern;

pattern pattern_of_rank(int rank);
/* The sum over `ranks` ranks (at most PATTERN_RANKS). */
pattern pattern_of_sum(int ranks);

/* x (count) = elements [first, first + count) of p. */
void pattern_fill(float *x, size_t count, size_t first, pattern p);
/* The first place where x (count) is not that; count if it is. */
size_t pattern_differs(const float *x, size_t count, size_t first, pattern p);
/* What belongs there. */
float pattern_at(pattern p, size_t i);

#endif
