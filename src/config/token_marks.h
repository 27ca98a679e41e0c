/* --save-at-tokens: counts of tokens, "1M,10M,1500K": positive integers that ascend, with K, M or G for 10^3, 10^6,
 * 10^9. */
#ifndef TRINE_CONFIG_TOKEN_MARKS_H
#define TRINE_CONFIG_TOKEN_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "trine_types.h" /* trine_status */

/* Errors: TRINE_EINVAL says what is wrong. Pure. */
trine_status token_marks_check(const char *list);

/* The largest count of a checked list in (before, after]; 0: none, or list is NULL. Pure. */
uint64_t token_marks_between(const char *list, uint64_t before, uint64_t after);

#endif
