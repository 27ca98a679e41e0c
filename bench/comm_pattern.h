/* Test values whose sums are known in closed form, so that checking a result costs one pass and no communication.
 *
 * Element i of rank r's source is i mod 251 + 256 r. The period is prime, so that parts whose sizes are powers of two
 * differ, and shifted, exchanged or missing parts are detected. A part of one rank's source is pattern_of_rank, the
 * sum over all ranks pattern_of_sum.
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
/* The first index where x (count) differs from it; count if there is none. */
size_t pattern_differs(const float *x, size_t count, size_t first, pattern p);
/* Element i of p. */
float pattern_at(pattern p, size_t i);

#endif
