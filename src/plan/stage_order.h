/* What the order of a stage's actions (pp/order.h) says of a step before its programs are made: how much the stage
 * holds at once, and what it does before the actions that other stages wait for. Bounds of a step's memory and time
 * start from here (plan/search_bound.h). */
#ifndef TRINE_PLAN_STAGE_ORDER_H
#define TRINE_PLAN_STAGE_ORDER_H

#include "core/program.h"

/* A chunk of the model, by its units. */
typedef struct {
    int stage, number; /* which of the stage's chunks it is */
    int blocks;
    bool embedding, head;
    bool receives, sends; /* its input and its output are messages */
} order_chunk;

/* The parts of an action that a mark counts. */
typedef enum { ORDER_FORWARD, ORDER_INPUT, ORDER_WEIGHT, ORDER_KINDS } order_kind; /* INPUT: B, or I */

/* An action of the first micro-batch of a chunk, at which work from other stages arrives (enters), or of the last,
 * after which other stages go on or gradients are complete. */
typedef struct {
    order_kind kind;
    bool enters;
    bool completes; /* it makes the chunk's last gradients: a REDUCE of each unit may begin */
    int chunk;      /* of the stage */
    const int *before; /* (chunks of the stage)(ORDER_KINDS) actions before it */
} order_mark;

typedef struct {
    int chunks, *own; /* (chunks) their numbers in the model */
    int slots;        /* micro-batches of a chunk that are held at once */
    int keeps;        /* blocks whose BACKWARD_WEIGHT waits, at once */
    int places;       /* blocks of the chunk that has most */
    order_mark *marks;
    int count;
    int *memory;      /* that marks and `own` point to; owned */
} stage_order;

typedef struct {
    program_spec spec;
    bool splits;            /* backward passes are I and W */
    order_chunk *chunks; /* (chunks) owned */
    stage_order *stages;    /* (stages) owned */
} step_order;

/* Of a spec (plan/resolve.h), which is copied. Cost: that of the order. Errors: TRINE_ENOMEM. Destroy *out with
 * step_order_destroy, on failure too. */
trine_status step_order_create(step_order *out, const program_spec *spec);
void step_order_destroy(step_order *o);

#endif
