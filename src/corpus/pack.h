/* Rows to windows: which rows lie in which window is decided once, when tokens are made.
 *
 * Best fit decreasing: the rows in descending order of length, each into the fullest window that has room for it, or
 * into a new one. It needs at most 11/9 of the least number of windows, and 1 more (Johnson, Demers, Ullman, Garey,
 * Graham, "Worst-case performance bounds for simple one-dimensional packing algorithms", SIAM J. Comput. 3, 1974).
 * Then windows are ordered by their earliest row, and rows of a window as they came, so that a part of the file has
 * rows of all lengths. A pure function of the rows. Memory: 4 bytes a token, 24 a row. */
#ifndef TRINE_CORPUS_PACK_H
#define TRINE_CORPUS_PACK_H

#include "corpus/token_shards.h"
#include "tokenizer/tokenizer.h"

typedef enum { PACK_FIT, PACK_NONE } pack_mode; /* NONE: a row a window */

/* {0} is empty. */
typedef struct {
    token_list ids; /* owned, as ends; ~id: supervised */
    size_t *ends;   /* of rows, in ids */
    size_t rows, capacity;
    uint64_t supervised;
} pack;

/* Appends a row of 1 token or more. Errors: TRINE_ENOMEM. */
trine_status pack_add(pack *p, const int32_t *ids, size_t count);

/* Writes windows of to->window tokens, which no row is longer than; `fill` fills them up. Errors: those of
 * shards_add_window; TRINE_ENOMEM. Not collective. */
trine_status pack_write(const pack *p, pack_mode mode, int32_t fill, shards *to);

void pack_free(pack *p);

#endif
