/* What all ranks must have alike before they begin: options, data. A rank that was started with
 * another option, or whose node has other files under the same names, would train something else in
 * silence, or wait for ever. Values are compared by hash, on the good path in one collective of 32
 * bytes, whatever their number; only where something differs are the values themselves sent, to rank
 * 0, which says who has what:
 *
 *     --lr: 0.0003 (ranks 0-2, 4-7), 0.0006 (rank 3, on node2)
 *
 * Invariant: a message is bounded, however many ranks there are and however many values they have. */
#ifndef TRINE_COMM_API_ALIKE_H
#define TRINE_COMM_API_ALIKE_H

#include "trine.h"

#define ALIKE_TEXT 512 /* bytes of a value's text, with its end; the rest is cut off */

/* One value of this rank. */
typedef struct {
    const char *name; /* borrowed; the same on every rank */
    char text[ALIKE_TEXT];
    uint64_t hash; /* of what must be equal */
} alike_value;

/* The values' list: alike_number, alike_text, ... until it is full. */
typedef struct {
    alike_value *values; /* [room]; owned */
    size_t count, room;
} alike_list;

/* Errors: TRINE_ENOMEM. Ended by alike_end. Not collective. */
trine_status alike_begin(alike_list *list, size_t room);
void alike_end(alike_list *list);

/* Adds a value, whose text is what is compared. Pure. */
void alike_text(alike_list *list, const char *name, const char *text);
void alike_number(alike_list *list, const char *name, double value);
void alike_flag(alike_list *list, const char *name, bool value);
/* Adds one of which not the text but (data, bytes) is compared. Pure. */
void alike_data(alike_list *list, const char *name, const char *text, const void *data,
                size_t bytes);

/* *most = the largest `own` of all ranks: how many values a list must have where ranks have some of
 * them only. Collective over: world. */
trine_status alike_most(trine_world *world, size_t own, size_t *most);

/* *same = whether all ranks have the same lists, with names in the same order. Errors: the
 * collectives' own. Collective over: world. */
trine_status alike_compare(trine_world *world, const alike_list *list, bool *same);

/* Behind an alike_compare that has found a difference, with as many values on every rank: adds to
 * `text` (size), on rank 0, a line for each of the first `most` values that differ, with a word about
 * how many more do, and sets *differ on every rank to their number. Errors: TRINE_ENOMEM; the
 * collectives' own. Collective over: world. */
trine_status alike_explain(trine_world *world, const alike_list *list, size_t most, char *text,
                           size_t size, size_t *differ);

/* Both, for lists of options: TRINE_EINVAL, on every rank, with `what` and the lines on rank 0.
 * Collective over: world. */
trine_status alike_agree(trine_world *world, const alike_list *list, const char *what);

#endif
