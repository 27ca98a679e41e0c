/* The seconds of instructions on a machine: a pass of a unit by its trace (cost/unit_cost.h), the optimizer by its
 * elements, a message or a collective by its bytes (state/part.h) and the place of its group. Each rank of a stage is
 * as the first. */
#ifndef TRINE_PLAN_PRICING_H
#define TRINE_PLAN_PRICING_H

#include "cost/unit_cost.h"
#include "plan/resolve.h"

typedef struct {
    const hardware *machine;
    const implementation *by;
    unsigned without; /* a set of 1 << cost_part */
} forecast_rules;

/* Whether a REDUCE begins when it is awaited, in a pipeline of so many stages. Pure. */
bool forecast_late(const forecast_rules *rules, int stages);

typedef struct {
    bool known;
    unit_seconds seconds;
} price;

enum {
    PRICE_PASSES = 4,
    PRICE_WAYS = 4,
    PRICE_BLOCKS = 8
}; /* kinds of passes of a unit; with or without adding, and with a keep buffer; blocks with other tensors frozen */

/* What prices are made with, and those that were made. */
typedef struct {
    const trine_config *config; /* resolved */
    int ranks;
    const device *dev;
    cost_rules rules;
    gpt_shape shape;     /* that of cost_shape */
    price units[UNIT_KINDS + PRICE_BLOCKS][PRICE_PASSES][PRICE_WAYS];
    int blocks[PRICE_BLOCKS], block_count; /* of rows UNIT_KINDS and on: a block of each */
    trine_status status; /* of a price that could not be made */
} pricing;

/* Borrows everything. micros: micro-batches of a rank. Pure. */
pricing pricing_of(const forecast_rules *rules, const trine_config *config, int ranks, const device *dev, int micros);
/* A pass of a unit, made once for each kind of unit; of blocks, for those with the same tensors frozen. An error is
 * kept in w->status. */
const unit_seconds *price_pass(pricing *w, int unit, unit_pass pass);
/* *seconds of AdamW (update), or of the norm's squares, over n elements of a rank. Errors: TRINE_ENOMEM. */
trine_status price_optimizer(const pricing *w, const rank_state *h, bool update, size_t n, double *seconds);
/* Elements of a unit that the rank's optimizer updates. Pure. */
size_t price_elements(const rank_state *h, const held_unit *u);
/* A message of so many bytes: all of a stream, or the share of a tp rank, which the receiving node then gathers.
 * Pure. */
double price_message(const pricing *w, double bytes);
/* What an instruction of the rank's program communicates over dp, tp (REDUCE_TP) or pp; `h` needs no memory. Pure. */
double price_communication(const pricing *w, const rank_state *h, const program *p, const instr *i);

#endif
