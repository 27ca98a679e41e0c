/* Internals of a generator. Each rank has the units of its stage, not sharded over dp (each replica has all of the
 * model, and a sequence of its own), a cache for each block, and memory for a chunk of rows. Rows pass through the
 * stages a chunk at a time: the first stage embeds, each passes the residual stream on, the last computes logits,
 * which its tp ranks gather.
 *
 * Invariant: the distribution of rows over ranks depends on the tokens alone, so the number of stages changes no bit.
 * All ranks count the tokens alike: the length of the sequence is not communicated. Cost: weights and caches once,
 * and a workspace for GENERATE_ROWS rows. */
#ifndef TRINE_GENERATE_GENERATOR_H
#define TRINE_GENERATE_GENERATOR_H

#include "ckpt/ckpt.h"
#include "model/decode.h"
#include "trine.h"
#include "trine_generate.h"

#define GENERATE_ROWS      256 /* rows per chunk: matrix products near their full rate */
#define GENERATE_HEAD_ROWS 16  /* rows whose logits are computed at a time */

/* One unit of the stage. */
typedef struct {
    int unit;
    flat_unit layout;
    void *base[FLAT_RANGES];    /* weights */
    bool borrowed[FLAT_RANGES]; /* shares the weights of the embedding on the same stage */
    gpt_unit bound;
    decode_cache cache;
} generate_unit;

struct trine_generator {
    trine_world *world; /* not owned */
    trine_generate_config config; /* strings are borrowed, used during creation only */
    char *path;   /* of the weights; NULL: none */
    int64_t step; /* of the checkpoint; -1: the weights are from none */
    trine_model model;
    int seq_length; /* of the sequence, at most the model's */
    trine_mesh *mesh;
    device *dev;
    tp_region tp;
    gpt_shape shape; /* T: seq_length */
    int stages, first, count; /* units of this stage */
    generate_unit *units;     /* [count] */
    decode_run run;
    void *x;         /* (rows, C) */
    int32_t *tokens; /* (rows), in device memory, for the first stage */
    /* Device memory at `base`; with a GPU, `staging` is the host staging buffer of what groups exchange. */
    void *base, *staging;
    size_t bytes, staging_bytes;
    bool pinned, mpi_reaches; /* the staging buffer is pinned; MPI can send from GPU memory */
    /* The host's. */
    int32_t *history; /* (T) tokens in the cache */
    int length;       /* of these */
    int64_t total;    /* tokens since the start */
    float *logits;    /* (V) */
    float *rows;      /* (GENERATE_HEAD_ROWS, V) of evaluate.h; NULL: not yet needed, or not the last stage */
    int32_t *ids;     /* (V) scratch of sampling */
    void *raw;        /* (tp, head_rows, Vp/tp) of the device's type; NULL but on the last stage */
};

/* Creates a generator with initial weights of `seed`, as training starts: for tests and benchmarks.
 * Collective over: world. */
trine_status generator_create_random(trine_generator **generator, trine_world *world,
                                     const trine_model *model, const trine_generate_config *config,
                                     uint64_t seed);

/* Where logits go: row r >= first of the sequence is stored at r - first of logits (rows, V); or, with `take`, up to
 * GENERATE_HEAD_ROWS rows at a time to logits (GENERATE_HEAD_ROWS, V), and take is called with the place of the first
 * one. Only ranks of the last stage have logits. */
typedef struct {
    int first;
    float *logits;
    trine_status (*take)(void *to, const float *logits, int row, size_t n);
    void *to;
} generate_wanted;

/* forward.c */
/* bytes (count) = those of world rank 0, on all ranks. Collective over: world. */
trine_status generate_tell(trine_generator *g, void *bytes, size_t count);
/* Evaluates the history from the end of the cache, g->length, up to `end`. Collective over: tp, pp. */
trine_status generate_advance(trine_generator *g, int end, const generate_wanted *wanted);
/* Whether this rank is the one of its replica that samples and scores: the first of the last stage. Pure. */
bool generate_has_output(const trine_generator *g);

/* generator_memory.c: tables, device memory and host buffers of g->units. Errors: TRINE_ENOMEM. Not
 * collective. */
trine_status generate_memory_create(trine_generator *g);
void generate_memory_destroy(trine_generator *g);

/* weights.c */
/* Errors: those of ckpt_read. Not collective. */
trine_status generate_weights_load(trine_generator *g, const ckpt_source *source);
/* Initial values. Errors: the device's. Not collective. */
trine_status generate_weights_init(trine_generator *g, uint64_t seed);

#endif
