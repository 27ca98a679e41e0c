/* Checks that all ranks have the same options and data before they start. A rank with a different option, or a node
 * with different files under the same names, would train something else silently, or hang. Values are compared by
 * hash, in one collective of 32 bytes regardless of their number. Only if a hash differs are the values sent to
 * rank 0, which reports the differences:
 *
 *     --lr
 *       0.0003: ranks 0-2, 4-7, the first on node1
 *       0.0006: rank 3 on node2
 *
 * Invariant: the length of a message is bounded for any number of ranks and values. */
#ifndef TRINE_COMM_API_ALIKE_H
#define TRINE_COMM_API_ALIKE_H

#include "base/options.h"

#define ALIKE_TEXT 512 /* bytes of a value's text with the terminating NUL; longer text is truncated */

/* One value of this rank. */
typedef struct {
    const char *name; /* borrowed; the same on every rank */
    char text[ALIKE_TEXT];
    uint64_t hash; /* of what must be equal */
} alike_value;

/* The list of values; filled by alike_number, alike_text, ... up to `capacity` values. */
typedef struct {
    alike_value *values; /* [capacity]; owned */
    size_t count, capacity;
} alike_list;

/* Errors: TRINE_ENOMEM. Freed by alike_end. Not collective. */
trine_status alike_begin(alike_list *list, size_t capacity);
void alike_end(alike_list *list);

/* Adds a value and compares its text. Pure. */
void alike_text(alike_list *list, const char *name, const char *text);
void alike_number(alike_list *list, const char *name, double value);
void alike_flag(alike_list *list, const char *name, bool value);
/* Adds a value and compares (data, bytes) instead of its text. Pure. */
void alike_data(alike_list *list, const char *name, const char *text, const void *data,
                size_t bytes);

/* *most = the largest `own` of all ranks: the length of the list if ranks have different numbers of values.
 * Collective over: world. */
trine_status alike_most(trine_world *world, size_t own, size_t *most);

/* *same = whether all ranks have the same lists, with names in the same order. Errors: the collectives' own.
 * Collective over: world. */
trine_status alike_compare(trine_world *world, const alike_list *list, bool *same);

/* Called after alike_compare has found a difference, with the same number of values on every rank. On rank 0,
 * appends to `text` (size) a paragraph for each of the first `most` values that differ and the number of the
 * others. Sets *differ to the number of differing values on every rank. Errors: TRINE_ENOMEM; the collectives' own.
 * Collective over: world. */
trine_status alike_explain(trine_world *world, const alike_list *list, size_t most, char *text,
                           size_t size, size_t *differ);

/* alike_compare and alike_explain for lists of options: TRINE_EINVAL on every rank, on rank 0 with `what` and the
 * differences. Collective over: world. */
trine_status alike_agree(trine_world *world, const alike_list *list, const char *what);

/* The same for the values of all options that ranks must agree on, by their roles: a rank with another value would do
 * something else or deadlock. Errors: TRINE_EINVAL, TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status alike_agree_options(trine_world *world, const options *o);

#endif
