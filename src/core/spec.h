/* The input of all stages' programs: the model's units, the model chunks that they form, the placement of
 * chunks on stages, and the edges between chunks.
 *
 *   unit    embedding, one transformer block, or head: the granularity of pipeline, ZeRO and data parallelism
 *   chunk   consecutive units that one stage runs together; the model is its chunks in order
 *   stage   the ranks of one pp coordinate; has one chunk or several
 *   edge    from a chunk to the next: activations go forward over it, gradients back
 *
 * The placement of chunks is data: chunk c on stage c is a plain pipeline, on stage c mod P an interleaved one
 * (Narayanan et al. 2021, section 2.2), up the stages and down again a V (Qi et al. 2024).
 * Only the model knows the kinds of units; it provides `facts`.
 * Invariant: everything here is a function of the spec. */
#ifndef TRINE_CORE_SPEC_H
#define TRINE_CORE_SPEC_H

#include "comm/api/comm.h"
#include "core/sharding.h"
#include "trine_types.h"

#define PROGRAM_STAGES 256  /* pipeline stages, at most */
#define PROGRAM_CHUNKS 1024 /* model chunks, at most */
#define STAGE_CHUNKS   64   /* model chunks per stage, at most */

/* Buffers come in two classes, because a token matrix is much larger than a transformer block: CLASS_BLOCK for
 * transformer blocks, CLASS_END for embedding and head. */
typedef enum { CLASS_BLOCK, CLASS_END, CLASSES } unit_class;

/* How the backward pass of a unit may be split into BACKWARD_INPUT and BACKWARD_WEIGHT. */
typedef enum {
    BACKWARD_UNSPLIT,    /* not at all: BACKWARD */
    BACKWARD_SPLITS,     /* into both */
    BACKWARD_WEIGHT_ONLY, /* its input needs no gradient */
    BACKWARD_NONE         /* it has no backward pass: nothing is trained in it and in the units before it */
} unit_backward;

/* The properties of a unit. */
typedef struct {
    const char *name; /* "layer" */
    int number;       /* among the units of that name; -1: it is the only one */
    unit_class class;
    bool reads_tokens, makes_loss; /* uses a micro-batch's tokens; its targets */
    bool reads_starts;             /* uses where its documents start */
    int twin;                      /* the unit that shares the token matrix, range 0 of both; -1: none */
    unit_backward backward;
} unit_facts;

/* The ordering of a device's communication. MPI and shared memory have an independent queue for each directed
 * edge and each group. NCCL requires one consistent order of all operations over all communicators of a
 * device: its programs must work with one queue, in which each operation or message group blocks all later
 * ones until its peers have arrived. */
typedef enum { QUEUES_PER_EDGE, ONE_QUEUE } program_queue;

/* The options of trine_parallel that a pass may ask for: another one is a member here and a line in plan/resolve.c.
 * (A program does not depend on all options, and so is not compiled again for each new one.) */
typedef struct {
    trine_layout layout;
    trine_zero zero;
    trine_schedule schedule;
    int gather_buffers, reduce_buffers;
    bool split_backward, exact, audit;
    int exact_tp;
} spec_options;

typedef struct program_spec program_spec;
struct program_spec {
    int stages, units, micros;
    int chunks;                    /* 0: one per stage, in the order of stages */
    int first[PROGRAM_CHUNKS + 1]; /* chunk c has units [first[c], first[c + 1]) */
    int place[PROGRAM_CHUNKS];     /* the stage of each chunk; not read if chunks is 0 */
    unit_facts (*facts)(const program_spec *spec, int unit); /* the model's; pure */
    spec_options parallel; /* resolved (plan/resolve.h) */
    program_queue queue;
    bool tied;           /* two units share the token matrix; for `facts` */
    int first_trained;   /* the first unit with a trained tensor: those before have no backward pass; for `facts` */
    bool tie_frozen;     /* that matrix is not trained: it has no gradients to add */
    unsigned starts;     /* which kinds of units read where documents start, a bit each; for `facts` */
    bool tp_partial;        /* some gradients are partial over tp and must be summed (REDUCE_TP) */
    int tp_part;            /* neighbours in a tp group that have the same heads of keys and values; 0: 1 */
    bool weight_follows; /* every BACKWARD_WEIGHT follows its BACKWARD_INPUT, whatever the schedule says */
    const struct pp_orders *orders; /* an order from a file instead of the schedule's (pp/order_file.h); not owned */
    bool forward_only;   /* an evaluation: no backward, no update */
    int lane;            /* with parallel.exact: micro-batches of a lane (spec_lane_micros); 0: all */
};

/* All of these are pure, except that spec_check_edges may raise an error. */

/* The row of the spec's ZeRO stage and lanes. */
const zero_row *spec_zero(const program_spec *s);

int spec_chunks(const program_spec *s);
int spec_stage_of(const program_spec *s, int chunk);
int spec_chunk_of(const program_spec *s, int unit);
/* The number of a stage's chunks; the n-th of them, in model order; a chunk's number on its stage. */
int spec_stage_chunks(const program_spec *s, int stage);
int spec_stage_chunk(const program_spec *s, int stage, int n);
int spec_chunk_number(const program_spec *s, int chunk);

int spec_chunk_first(const program_spec *s, int chunk);
int spec_chunk_last(const program_spec *s, int chunk); /* inclusive */

/* The number of a stage's units; the n-th of them, in model order; whether `unit` is one of them. */
int spec_stage_units(const program_spec *s, int stage);
int spec_stage_unit(const program_spec *s, int stage, int n);
bool spec_holds(const program_spec *s, int stage, int unit);

unit_facts spec_unit(const program_spec *s, int unit);
unit_class spec_class(const program_spec *s, int unit);
/* Whether a unit has a backward pass, and so a REDUCE and an UPDATE; how many units of a chunk have one: its last
 * ones. Whether a GATHER of `unit` brings parameters that a step changes. */
bool spec_goes_back(const program_spec *s, int unit);
int spec_chunk_backs(const program_spec *s, int chunk);
bool spec_gather_changes(const program_spec *s, int unit);
/* Whether a unit reads the batch that LOAD brings. */
bool spec_takes_batch(const program_spec *s, int unit);
/* What of it the units of a stage read: tokens or targets; where documents start. */
bool spec_stage_reads_ids(const program_spec *s, int stage);
bool spec_stage_reads_starts(const program_spec *s, int stage);

/* The unit earlier in the model that shares this one's matrix; it saves the matrix and counts it in the norm.
 * The unit itself if there is none. */
int spec_owner(const program_spec *s, int unit);
/* Whether the unit's twin is on the same stage; false without a twin. */
bool spec_twin_is_local(const program_spec *s, int unit);
/* The first unit of a stage that has a twin; the same if TIE adds the gradients of the two; -1: none. */
int spec_twin_unit(const program_spec *s, int stage);
int spec_tied_unit(const program_spec *s, int stage);
/* The unit whose GATHER brings `unit`'s parameters: its owner if that is on the same stage, else
 * the unit itself. */
int spec_gather_unit(const program_spec *s, int unit);
/* The number of a stage's units whose GATHER uses buffers of a class; the number of its units of that class. */
int spec_gather_units(const program_spec *s, int stage, unit_class c);
int spec_units_of(const program_spec *s, int stage, unit_class c);

typedef enum {
    EDGE_LOCAL, /* both chunks on one stage: no message */
    EDGE_NEXT,  /* to the next stage */
    EDGE_BACK,  /* to the previous stage; also from the last of two stages to the first */
    EDGE_WRAP,  /* from the last of three or more stages to the first */
    EDGE_NONE   /* between other stages: spec_check_edges refuses it */
} edge_kind;

/* Edge e leads from chunk e to chunk e + 1. */
typedef struct {
    int from, to; /* stages */
    edge_kind kind;
} spec_edge;
edge_kind spec_edge_between(int from, int to, int stages);
int spec_edges(const program_spec *s);
spec_edge spec_edge_of(const program_spec *s, int edge);
/* Whether there is such an edge and it is EDGE_LOCAL. */
bool spec_edge_is_local(const program_spec *s, int edge);
/* Whether a chunk's input arrives, or its output leaves, in a message. */
bool spec_receives(const program_spec *s, int chunk);
bool spec_sends(const program_spec *s, int chunk);

/* Errors: TRINE_EUNSUPPORTED if an edge is EDGE_NONE, naming its chunks and stages. */
trine_status spec_check_edges(const program_spec *s);
/* The groups that the spec's programs need of a mesh: a ring for EDGE_WRAP, BACK_ lanes for EDGE_BACK, TRINE_TIE of
 * the two stages that share the token matrix. */
mesh_needs spec_mesh_needs(const program_spec *s);

/* A rank's micro-batches are summed over dp in lanes: consecutive micro-batches whose gradients are added first, on
 * the rank, and then together over dp. ZeRO-0 and 1 have one lane a step, ZeRO-2 and 3 one a micro-batch; with
 * parallel.exact they are exact_dp / dp, whatever the layout. Micro-batches of a lane; lanes, that is, REDUCEs per
 * unit and step; whether a micro-batch begins a lane, or ends one. */
int spec_lane_micros(const program_spec *s);
int spec_reduces(const program_spec *s);
bool spec_begins_lane(const program_spec *s, int micro);
bool spec_ends_lane(const program_spec *s, int micro);
/* Whether BACKWARD_INPUT adds its gradients to those at rest. Else, where the sum of the lane before may still be
 * there, it leaves them to BACKWARD_WEIGHT. Pure. */
bool spec_small_at_rest(const program_spec *s);
/* The number in the step of a micro-batch of the rank'th of `ranks` ranks that read different samples. They take
 * micro-batches in turn: the first ones of all ranks are the first of the step, for any number of ranks. With
 * parallel.exact lanes do: lane l of D has l, l + D, l + 2 D ..., and rank r has lanes r, r + ranks ..., one after
 * the other. */
int spec_micro_number(const program_spec *s, int ranks, int rank, int micro);
/* The number in the step of its first sample, with micro-batches of `batch` samples. */
uint64_t spec_sample(const program_spec *s, int ranks, int rank, int micro, size_t batch);

#endif
