/* The trainer's inside, for the files of this room that compose it and report on it. */
#ifndef TRINE_TRAIN_TRAINER_H
#define TRINE_TRAIN_TRAINER_H

#include "base/output.h"
#include "ckpt/blocks.h"
#include "ckpt/lease.h"
#include "data/sampler.h"
#include "data/tokens.h"
#include "device/cuda_open.h"
#include "run/exec.h"
#include "train/overflow.h"
#include "profile/profile.h"
#include "train/scaler.h"
#include "plan/resolve.h"

/* Host memory beside a GPU that the GPU's driver has refused to pin; copies of it are slower. */
typedef struct {
    uint64_t bytes;     /* this rank's */
    char why[160];      /* of this rank, then of the first */
    int64_t ranks;      /* on so many it was refused, as all ranks know */
    int64_t first;      /* and this one is the first of them */
    uint64_t most;      /* the largest of their bytes */
} trainer_pageable;

/* A token file and an order of its samples. */
typedef struct {
    tokens *source;
    sampler order;
    tokens_print print;
} trainer_data;

struct trine_trainer {
    trine_world *world; /* not owned */
    trine_config config;
    trine_mesh *mesh;
    blocks_writer writer; /* of checkpoints; made by the first save */
    lease *lease; /* rank 0: of the folder that this trainer saves in; NULL: none yet */
    device *dev;
    trainer_data train, val; /* val.source NULL: no validation */
    program_spec spec, eval_spec;
    program *stages, *eval_stages; /* all stages' programs; this rank runs its own */
    gpt_shape shape;
    rank_state held;
    exec interpreter;
    profile *profile; /* NULL: none was started */
    const output *log; /* the open log's file; NULL: none */
    arena memory;
    void *base;       /* own_bytes of the device */
    size_t own_bytes;
    void *shared;     /* from trine_mesh_alloc: what peers of the node read in place */
    void *host;       /* beside a GPU: the rest of the mirror, and what the host needs (memory.h) */
    bool host_pinned, shared_pinned;
    trainer_pageable pageable;
    bool mpi_reaches; /* MPI sends from GPUs' memory, and may */
    uint64_t nccl_bytes; /* that NCCL's groups have taken of this rank's GPU, as far as can be seen */
    cuda_gpu *gpus; /* (world size) of all ranks; NULL on processors */
    int64_t steps, updates;
    int64_t saved; /* the step of the newest checkpoint, if this state is in it; -1: none */
    uint64_t samples; /* consumed by the steps so far: the first of the next one */
    scaler scale;
    int64_t finite_step; /* the last step with a finite norm, and that; 0: none yet */
    double finite_norm;
    char overflow[OVERFLOW_TEXT]; /* of the last step, if it was skipped */
    uint64_t peak_bytes; /* the largest rank's plan */
    int threads;
    bool narrow; /* the affinity mask has fewer processors than this rank's share of the node */
    char *data_path, *val_path, *split, *library; /* owned copies of the configuration's strings */
};

/* Whether `path` is a file of the data, by whatever name. Not collective. */
bool trainer_has_file(const trine_trainer *t, const char *path);

/* Adds the loss of the validation's global batch i to *sum. Errors: those of trine_trainer_eval.
 * Collective over: world. */
trine_status trainer_eval_batch(trine_trainer *t, int i, double *sum);

#endif
