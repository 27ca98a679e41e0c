/* Divides an endless sequence of samples among sources by their weights, with no array that grows with the samples.
 *
 * Promise: of the first n samples, for every n, source i has c_i(n) with |c_i(n) - w_i n| < 1, where w_i is its
 * weight divided by the sum of all. The order is a pure function of the weights, as exact decimal numbers.
 *
 * The j-th sample of source i (j from 0) may be any from floor(j / w_i) + 1 to ceil((j + 1) / w_i): the positions,
 * counted from 1, that keep the promise. Of the sources whose window has begun, the one whose window ends first is
 * next (the first of equals). No window is missed: the windows inside positions a to b number at most
 * floor(w_i (b - a + 1)) for source i, b - a + 1 in all, and serving the earliest end first meets all ends whenever
 * no interval asks for more than it has (Jackson's rule for unit jobs). No position is left empty: before position n,
 * n - 1 samples are divided among shares that add up to n, so some c_i < w_i n: its window has begun. These are the
 * windows of Baruah, Cohen, Plaxton and Varvel, "Proportionate progress", Algorithmica 15, 1996.
 *
 * Cost: the next sample some 10 ns a source; a jump forward by m samples m times that, a jump back at most 130 000
 * times, or from the beginning of a period if it is further. The order repeats after sum of weights / their greatest
 * common divisor samples: 10 for 0.7 and 0.3. */
#ifndef TRINE_DATA_SHARES_H
#define TRINE_DATA_SHARES_H

#include "trine_types.h"

#define SHARES_MAX 256 /* sources */

/* The division of the first n samples of a period. */
typedef struct {
    uint64_t n;
    uint64_t count[SHARES_MAX]; /* each source's samples */
    uint64_t end[SHARES_MAX];   /* of the window of its next one */
} shares_point;

typedef struct {
    int sources;
    uint64_t weight[SHARES_MAX]; /* whole numbers without a common divisor */
    uint64_t period;             /* their sum */
    shares_point now, marks[2];  /* where the last call was, and earlier points */
} share_order;

/* Weights as texts: digits with a point or an exponent. Errors: TRINE_EINVAL names a text that is not a positive
 * number, or says that the weights have too many digits together (some 18). Pure. */
trine_status shares_create(share_order *s, int sources, const char *const *weights);

/* The source of sample n, counted from 0; *own: the number of that source's earlier samples. A pure function of the
 * weights and n: `now` and `marks` only save time. */
int shares_source(share_order *s, uint64_t n, uint64_t *own);

/* The part of the samples that source i has, between 0 and 1. Pure. */
double shares_part(const share_order *s, int i);

/* Whether `text` is a positive decimal number, as weights are. Pure. */
bool shares_is_weight(const char *text);

#endif
