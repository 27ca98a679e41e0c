/* The interface of a schedule: one pp_schedule, named after its enum value: pp_TRINE_1F1B. A schedule is a pure
 * function from a shape to the order of each stage's actions. A new schedule is a row in TRINE_SCHEDULE_LIST
 * (include/trine.h) and a file in this module that defines it.
 *
 * A schedule says what a stage computes in which order, and nothing about messages, buffers or communication:
 * passes insert those. The rules that an order must follow, which core/check.h proves of the programs:
 *
 *   - every chunk of the stage has an F and a B, or an F, an I and a W, of every micro-batch
 *   - for a chunk, F, B, I and W each come in ascending micro-batches; W comes after its I
 *   - no stage waits for another in a cycle
 *
 * The letters are those of torch.distributed.pipelining. */
#ifndef TRINE_PP_ORDER_H
#define TRINE_PP_ORDER_H

#include "core/program.h"

typedef enum {
    ACTION_FORWARD,  /* F */
    ACTION_BACKWARD, /* B: the backward pass, both parts */
    ACTION_INPUT,    /* I: the part that computes the gradient of the chunk's input */
    ACTION_WEIGHT    /* W: the part that computes the gradients of parameters */
} action_kind;

/* A chunk on a micro-batch. Chunks are counted over all stages, in model order. */
typedef struct {
    action_kind kind;
    int chunk, micro;
} pp_action;

/* The actions of one stage in order. Zero-initialise. */
typedef struct {
    pp_action *at; /* owned */
    int count, capacity;
} pp_actions;

/* Appends. Errors: TRINE_ENOMEM. */
trine_status actions_add(pp_actions *a, action_kind kind, int chunk, int micro);
void actions_destroy(pp_actions *a);

typedef struct {
    int stages;  /* P */
    int virtual; /* V, chunks per stage */
    int micros;  /* M */
} pp_shape;

/* The stage of chunk c of P V chunks. LOOP: c mod P. V: 0, 1, ..., P-1, P-1, ..., 1, 0 (V is 2). */
typedef enum { PLACE_LOOP, PLACE_V } pp_place;

typedef struct {
    pp_place place;
    int virtual; /* the only number of chunks per stage that it takes; 0: any */
    bool splits; /* its backward passes are I and W */
    /* Appends the actions of a stage. Errors: TRINE_ENOMEM. */
    trine_status (*order)(const pp_shape *s, int stage, pp_actions *out);
    /* The fraction of a step that a stage waits if all chunks cost the same and a backward pass costs two forward
     * passes; NULL: no formula is known. Pure. */
    double (*bubble)(const pp_shape *s);
} pp_schedule;

#define PP_SCHEDULE(name, text, words) extern const pp_schedule pp_##name;
TRINE_SCHEDULE_LIST(PP_SCHEDULE)
#undef PP_SCHEDULE

const pp_schedule *pp_schedule_of(trine_schedule schedule);
/* The shape of a spec's schedule. Pure. */
pp_shape pp_shape_of(const program_spec *s);
/* Appends the actions of a stage: the schedule's order, a file's, or the forwards of an evaluation: those of a file's
 * order, in a V down and up in turn, in a loop a group of micro-batches through one chunk after the other. Errors:
 * TRINE_ENOMEM. */
trine_status pp_stage_actions(const program_spec *s, int stage, pp_actions *out);
/* The chunk that is the n-th of a stage, in model order; the stage of a chunk. Pure. */
int pp_chunk_at(pp_place place, const pp_shape *s, int stage, int n);
int pp_stage_at(pp_place place, const pp_shape *s, int chunk);

/* Orders of all stages, from a file (pp/order_file.h). */
typedef struct pp_orders pp_orders;

/* Micro-batches in groups, for schedules that run a group through one chunk after the other: max(1, floor(M / P))
 * groups, the first M mod that many of which have one micro-batch more than the others. Groups of P with a short
 * last one would deadlock for some shapes. */
typedef struct {
    int first, count; /* micro-batches [first, first + count) */
} pp_group;
int pp_groups(const pp_shape *s);
pp_group pp_group_of(const pp_shape *s, int n);

/* Appends action number k of a kind, of V M, of a stage in a loop: forwards go group by group, and in a group chunk
 * by chunk; other kinds the same with the chunks reversed. Errors: TRINE_ENOMEM. */
trine_status actions_add_number(pp_actions *a, action_kind kind, const pp_shape *s, int stage, int k);

/* Appends a stage's F and I with their W (fill_weights.c). `make` appends the F and I of a stage, in order; together
 * those orders must have no deadlock. All stages are simulated, with F, I and W of one time unit each and messages of
 * none: a stage runs the next of its F and I as soon as what it needs is there; otherwise its oldest W; if it has
 * none, the first F or I that can run. An F waits while the stage has `most` chunks with an F and without their W.
 * Cost: O(P M V), for one stage. Errors: TRINE_ENOMEM, those of `make`. Aborts if the orders of `make` wait in a
 * cycle, or `most` is too small for them. */
trine_status pp_fill_weights(const pp_shape *s, int most, int stage, pp_actions *out,
                             trine_status (*make)(const pp_shape *s, int stage, pp_actions *out));

#endif
