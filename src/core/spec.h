/* What all stages' programs are made from: the units of the model and what each of them is, the chunks
 * that they form, the stages on which the chunks lie, and the edges between chunks.
 *
 *   unit    embedding, one block, or head: the atom of pipeline, ZeRO and data parallelism
 *   chunk   neighbouring units that one stage runs in one go; the model is its chunks in order
 *   stage   the ranks of one pp coordinate; holds one chunk or several
 *   edge    from a chunk to the one behind it: activations go forwards over it, gradients back
 *
 * Where a chunk lies is data: chunk c on stage c is a plain pipeline, on stage c mod P an interleaved one
 * (Narayanan et al. 2021, section 2.2), on stages that go there and back a V (Qi et al. 2024).
 * What a unit is only the model knows, which gives `facts`; nobody else counts units.
 * Invariant: everything here is a function of the spec. */
#ifndef TRINE_CORE_SPEC_H
#define TRINE_CORE_SPEC_H

#include "core/sharding.h"
#include "trine.h"

#define PROGRAM_STAGES 256  /* pipeline stages, at most */
#define PROGRAM_CHUNKS 1024 /* of the model, at most */
#define STAGE_CHUNKS   64   /* of a stage, at most */

/* Buffers come in two classes, because a token matrix dwarfs a block. */
typedef enum { CLASS_BLOCK, CLASS_END, CLASSES } unit_class;

/* How the backward pass of a unit may be split into BACKWARD_INPUT and BACKWARD_WEIGHT. */
typedef enum {
    BACKWARD_WHOLE,      /* it may not: BACKWARD */
    BACKWARD_SPLITS,     /* into both */
    BACKWARD_WEIGHT_ONLY /* nobody wants the gradient of its input */
} unit_backward;

/* What a unit is. */
typedef struct {
    const char *name; /* "layer" */
    int number;       /* among those of the name; -1: there is only one */
    unit_class class;
    bool reads_tokens, makes_loss; /* from a micro-batch's tokens; from its targets */
    int twin;                      /* the unit that has the same matrix as its range 0; -1: none */
    unit_backward backward;
} unit_facts;

/* What a device's communication waits for. MPI and shared memory have a queue for each directed
 * edge and each group, which move independently. NCCL wants one consistent order of all operations
 * over all communicators of a device: its programs must not need more than one queue, in which each
 * operation, or group of messages, holds up all that come after it until its peers have come. */
typedef enum { QUEUES_PER_EDGE, ONE_QUEUE } program_queue;

typedef struct program_spec program_spec;
struct program_spec {
    int stages, units, micros;
    int chunks;                    /* 0: one a stage, in the order of stages */
    int first[PROGRAM_CHUNKS + 1]; /* chunk c has units [first[c], first[c + 1]) */
    int place[PROGRAM_CHUNKS];     /* the stage of each chunk; not read if chunks is 0 */
    unit_facts (*facts)(const program_spec *spec, int unit); /* the model's; pure */
    trine_zero zero;
    trine_schedule schedule;
    program_queue queue;
    int gather_buffers;  /* asked for, per class */
    bool tied;           /* two units share the token matrix; for `facts` */
    bool tp_partial;        /* sequence parallelism: some gradients are addends over tp */
    bool split_backward; /* BACKWARD_INPUT and BACKWARD_WEIGHT where a unit allows it */
    bool forward_only;   /* an evaluation: no backward, no update */
};

/* All of these are pure. */

int spec_chunks(const program_spec *s);
int spec_stage_of(const program_spec *s, int chunk);
int spec_chunk_of(const program_spec *s, int unit);
/* A stage's chunks in the order of the model, and the number of a chunk among those of its stage. */
int spec_stage_chunks(const program_spec *s, int stage);
int spec_stage_chunk(const program_spec *s, int stage, int n);
int spec_chunk_number(const program_spec *s, int chunk);

int spec_chunk_first(const program_spec *s, int chunk);
int spec_chunk_last(const program_spec *s, int chunk); /* inclusive */

/* A stage's units in the order of the model; `unit` is held. */
int spec_stage_units(const program_spec *s, int stage);
int spec_stage_unit(const program_spec *s, int stage, int n);
bool spec_holds(const program_spec *s, int stage, int unit);

unit_facts spec_unit(const program_spec *s, int unit);
unit_class spec_class(const program_spec *s, int unit);
/* Whether a unit needs what LOAD brings. */
bool spec_takes_batch(const program_spec *s, int unit);
bool spec_stage_takes_batch(const program_spec *s, int stage);

/* The unit that shares this one's matrix, and lies before it in the model: it saves the matrix, and
 * counts it in the norm. The unit itself if there is none. */
int spec_owner(const program_spec *s, int unit);
/* Whether the unit's twin lies on the same stage; false without a twin. */
bool spec_twin_is_local(const program_spec *s, int unit);
/* The unit of a stage that has a twin, the first if there are two; -1: none. */
int spec_tied_unit(const program_spec *s, int stage);
/* The unit whose GATHER brings `unit`'s parameters: its owner if that is on the same stage, else
 * the unit itself. */
int spec_gather_unit(const program_spec *s, int unit);
/* The units of a stage that are GATHERed or reduced through buffers of a class. */
int spec_gather_units(const program_spec *s, int stage, unit_class c);
int spec_units_of(const program_spec *s, int stage, unit_class c);

typedef enum {
    EDGE_LOCAL, /* both chunks on one stage: nothing is sent */
    EDGE_NEXT,  /* to the stage after */
    EDGE_BACK,  /* to the stage before */
    EDGE_WRAP   /* from the last stage to the first */
} edge_kind;

/* Edge e leads from chunk e to chunk e + 1. */
typedef struct {
    int from, to; /* stages */
    edge_kind kind;
} spec_edge;
int spec_edges(const program_spec *s);
spec_edge spec_edge_of(const program_spec *s, int edge);
/* Whether a chunk's input comes, or its output goes, in a message. */
bool spec_receives(const program_spec *s, int chunk);
bool spec_sends(const program_spec *s, int chunk);

/* How often the gradients of a unit are reduced in a step. */
int spec_reduces(const program_spec *s);

#endif
