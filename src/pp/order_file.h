/* Orders of all stages, and their text: the CSV of torch.distributed.pipelining (`_dump_csv` and `_load_csv` with
 * format "compute_only"). A row is a stage, a cell an action: `2F0` is F of chunk 2 (there: stage 2) of
 * micro-batch 0, and so are `2B0`, `2I0` and `2W0`. An empty cell is a stage that waits. `(0F7;7B3)OVERLAP_F_B`
 * is its actions in turn. Communication and sharding (SEND_F, RECV_B, UNSHARD, REDUCE_GRAD, ...) is read and
 * left out: passes insert their own. Which stage has a chunk follows from the rows.
 *
 * Invariant of every pp_orders: the rules of pp/order.h, and no cycle. */
#ifndef TRINE_PP_ORDER_FILE_H
#define TRINE_PP_ORDER_FILE_H

#include <stdio.h>

#include "pp/order.h"

#define ORDER_BYTES  ((uint64_t)64 << 20) /* of a file, at most */
#define ORDER_MICROS (1 << 20)            /* micro-batches, at most */

/* Zero-initialise. A micro-batch of a chunk has a B, or an I and a W; others of the chunk may differ. */
struct pp_orders {
    int stages, chunks, micros;
    int *place;        /* (chunks) the stage of each; owned */
    pp_actions *order; /* (stages); owned */
    int **column;      /* (stages)(actions) where they stand in the file, from 1; the row is the stage + 1.
                        * NULL if they come from no file. Owned */
    bool splits;       /* some backward pass is I and W */
};

/* Parses a text; `path` is for messages. Memory: at most 16 times the text. The caller owns *out (pp_orders_destroy);
 * zeros after an error. Errors: TRINE_EINVAL names path, row, column (from 1) and reason; TRINE_ENOMEM. */
trine_status pp_orders_parse(const char *text, size_t length, const char *path, pp_orders *out);
/* Reads a file. Errors: those of pp_orders_parse; TRINE_EIO; TRINE_EDATA if it is longer than ORDER_BYTES. */
trine_status pp_orders_read(const char *path, pp_orders *out);
/* The orders of a schedule; the caller owns *out. Errors: TRINE_ENOMEM. */
trine_status pp_orders_from(trine_schedule schedule, const pp_shape *s, pp_orders *out);
void pp_orders_destroy(pp_orders *o);

/* The number of actions of all stages. Pure. */
int pp_orders_actions(const pp_orders *o);

/* Simulates all stages with messages that take no time; cost[k], at least 1, is the time of an action_kind. start:
 * (all actions, stage by stage) the time at which each starts, or NULL; *end: the time at which the last is
 * complete, or NULL. Cost: O(actions). Errors: TRINE_EINVAL if stages wait in a cycle: "`path`: deadlock: row 1,
 * column 9 (0B0) waits for 1B0; row 2, ..."; TRINE_ENOMEM. */
trine_status pp_orders_time(const pp_orders *o, const char *path, const int cost[4], int *start, int *end);

/* Writes the text. start, of pp_orders_time with all costs 1, aligns it: a column is a unit of time. NULL: no
 * empty cells. Errors: TRINE_EIO. */
trine_status pp_orders_write(const pp_orders *o, const int *start, FILE *out);

/* ---- For the files of this module ------------------------------------------------------------- */

/* Where an action stands, for messages: its column, from 1. Pure. */
int pp_orders_column(const pp_orders *o, int stage, int n);
/* Checks the rules of pp/order.h, and makes an I of each B that has a W. Wants place, order and numbers. Errors:
 * TRINE_EINVAL, TRINE_ENOMEM. */
trine_status pp_orders_check(pp_orders *o, const char *path);

/* The letter of an action_kind. */
#define PP_LETTERS "FBIW"

#endif
