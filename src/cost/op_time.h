/* How long an operator, a collective or a message takes on a machine. All functions are pure. */
#ifndef TRINE_COST_OP_TIME_H
#define TRINE_COST_OP_TIME_H

#include "cost/count_device.h"
#include "cost/hardware.h"

/* What a forecast can leave out, to see which part of it matters. X(member, name). */
#define COST_PART_LIST(X)                                                                          \
    X(COST_MEMORY, "memory-bound")  /* operators that only move bytes */                           \
    X(COST_TP, "tp")                /* collectives over tp */                                      \
    X(COST_ADDS, "gradient-adds")   /* passes that add gradients */                                \
    X(COST_BUBBLE, "bubble")        /* waiting for another stage */                                \
    X(COST_DP, "dp")                /* collectives over dp, tie, norm */                           \
    X(COST_TILES, "tiles")          /* products whose tiles do not fill the processors */          \
    X(COST_MESSAGES, "messages")                                                                   \
    X(COST_HEAD, "head")            /* the unit that makes the loss */                             \
    X(COST_UPDATE, "update")                                                                       \
    X(COST_HOST, "host")            /* launches and the host's time */

typedef enum {
#define COST_PART_ENUM(name, text) name,
    COST_PART_LIST(COST_PART_ENUM)
#undef COST_PART_ENUM
        COST_PARTS
} cost_part;

/* A machine, and what is left out: a set of 1 << cost_part; the ranks of the job, which share the cores of their
 * nodes, and the threads of a rank, 0: its share. */
typedef struct {
    const hardware *h;
    unsigned without;
    int ranks, threads;
} machine_cost;

static inline bool cost_has(const machine_cost *m, cost_part part) {
    return !(m->without >> part & 1);
}

/* Products of matrices of `type`. Each processor computes a tile at a time, so that the last wave of tiles, and tiles
 * at the edges, take as long as whole ones; tiles are as large as the machine's, or smaller where these leave
 * processors idle. A product takes no less time than its operands to move. */
double op_product(const machine_cost *m, count_product p, trine_dtype type);
/* The time of an event, which is no collective, as the machine measured it, among as many ranks of the node; -1: it
 * has no points of this kind. */
double op_measured(const machine_cost *m, const count_event *e, trine_dtype type);
/* Bytes that are moved, each once. */
double op_bytes(const machine_cost *m, double bytes);

/* Where the ranks of a group are: `size` ranks, each `stride` after the one before, in a job of `ranks`. */
typedef struct {
    int size, stride, ranks;
} group_place;

/* An all-reduce, all-gather or reduce-scatter in a ring: inside a node over its links; over several nodes in rings
 * through their cards, which all groups of the same kind share. `sent`: bytes that a rank sends. Inside a node whose
 * collectives were measured: between these. */
double op_collective(const machine_cost *m, group_place at, trine_tally_kind kind, double sent);
/* A message of `bytes` from a rank to the one `stride` further, while all ranks of its node send one as well; inside
 * a node as it was measured, if it was. */
double op_message(const machine_cost *m, group_place at, double bytes);

#endif
