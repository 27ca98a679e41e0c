/* The trainer's internals, for the files of this module that create it and report on it. */
#ifndef TRINE_TRAIN_TRAINER_H
#define TRINE_TRAIN_TRAINER_H

#include "base/output.h"
#include "ckpt/blocks.h"
#include "ckpt/lease.h"
#include "ckpt/safetensors.h"
#include "data/blend.h"
#include "device/cuda_open.h"
#include "run/exec.h"
#include "trace/trace.h"
#include "train/overflow.h"
#include "train/run_tokenizer.h"
#include "train/scaler.h"
#include "plan/resolve.h"
#include "trine.h"

/* Host memory of GPU ranks that the driver refused to pin; copies of it are slower. */
typedef struct {
    uint64_t bytes;     /* this rank's */
    char why[160];      /* this rank's reason, then the first one's */
    int64_t ranks;      /* number of ranks on which it was refused; the same on all ranks */
    int64_t first;      /* the first of them */
    uint64_t most;      /* the largest of their bytes */
} trainer_pageable;

/* A decay that begins by time (train/decay_time.h). */
typedef struct {
    int64_t step, update; /* after which it has begun; step 0: it has not */
    int64_t timed;        /* steps of this process that its pace has */
    double from;          /* stop_elapsed at the end of the first of them */
} trainer_decay;

typedef struct tensorboard tensorboard; /* train/tensorboard.h */

/* Token files, or the program's samples, and their order. */
typedef struct {
    const trine_source *program; /* while the trainer is created; NULL: files */
    blend *samples;
    tokens_print print;
} trainer_data;

/* How far the step is that runs in parts (trine_loop.h). */
typedef enum { PART_NONE, PART_GRADIENTS, PART_NORM } trainer_part;

/* A step that has begun. */
typedef struct {
    step_io io;
    uint64_t supervised; /* tokens; 0: no program runs */
    uint64_t start;      /* ns */
    double lr;
    trainer_part part;
    bool has_loss; /* NORM has run for these samples */
} trainer_step;

/* A tensor of the model, as files have it. */
typedef struct {
    st_entry file; /* name and shape */
    size_t count;
} trainer_tensor;

enum { TRAINER_STRINGS = 9 }; /* of a trine_config */
#define TRAINER_TRACED 200

struct trine_trainer {
    trine_world *world; /* not owned */
    trine_config config;
    trine_config asked; /* as it was before trine_config_check filled it in; strings are those of `config` */
    char *run_options;  /* options_text_run; NULL: not told */
    trine_mesh *mesh;
    blocks_writer writer; /* of checkpoints; created by the first save */
    lease *lease; /* rank 0: of the folder that this trainer saves in; NULL: none yet */
    device *dev;
    trainer_data train, val; /* val.samples NULL: no validation */
    bool wants_end;          /* some of them need to be told which token ends a document (train/boundaries.h) */
    run_tokenizer tokenizer; /* of rank 0 */
    char *lora_base; /* folder of the model that adapters alone are saved without (ckpt/base.h); NULL: none */
    uint64_t lora_base_hash;
    program_spec spec, eval_spec;
    program *stages, *eval_stages; /* the programs of all stages; this rank runs its own */
    gpt_shape shape;
    rank_state held;
    exec interpreter;
    struct profile *profile; /* NULL: not started */
    trace *trace;     /* NULL: nothing is recorded */
    exec_observer recorder;
    char traced[TRAINER_TRACED]; /* what the file of --trace has; "": nothing that the log has not printed */
    char ring_file[512]; /* of the last step, if it was skipped and the ring was written */
    const output *log; /* the open log's file; NULL: none */
    struct energy *joules; /* of the first rank of a machine: its counters (train/joules.h) */
    bool measures, counts; /* the joules of a step are known, on every rank alike; this step's interval has begun */
    bool shows;         /* trine_trainer_progress was called */
    tensorboard *board; /* rank 0: the events' files; NULL: none */
    arena memory;
    void *base;       /* own_bytes of device memory */
    size_t own_bytes;
    void *shared;     /* from trine_mesh_alloc: memory that peers on the node read in place */
    void *host;       /* on GPU ranks: the rest of the staging buffer, and host buffers (trainer_memory.h) */
    bool host_pinned, shared_pinned;
    trainer_pageable pageable;
    bool mpi_reaches; /* MPI can and may send from device memory */
    uint64_t nccl_bytes; /* this rank's GPU memory taken by NCCL's groups, as far as can be measured */
    cuda_gpu *gpus; /* (world size) of all ranks; NULL without GPUs */
    int64_t steps, updates;
    int64_t saved; /* the step of the newest checkpoint, if it has this state; -1: none */
    uint64_t samples; /* consumed by the steps so far: index of the next step's first */
    trainer_decay decay;
    scaler scale;
    trainer_step now; /* now.part PART_NONE: no step is under way */
    bool sets_lr;     /* trine_trainer_set_lr: the learning rate of every step is lr */
    double lr;
    trainer_tensor *tensors; /* (tensor_count) */
    size_t tensor_count;
    int64_t finite_step; /* the last step with a finite norm, and that norm; 0: none yet */
    double finite_norm;
    char overflow[OVERFLOW_TEXT]; /* of the last step, if it was skipped */
    uint64_t peak_bytes; /* the largest rank's plan */
    trine_planned planned; /* zeros: no plan */
    bool val_beside;       /* trine_run.val_beside */
    bool saves;            /* --save is given */
    trine_cpu_level level_asked, level_highest; /* --cpu-level; the highest that a rank of this job has */
    int threads;
    bool cpu_limited; /* the affinity mask has fewer processors than this rank's share of the node */
    char *strings[TRAINER_STRINGS]; /* owned copies of the configuration's; NULL: not given */
};

/* Copies the strings of t->config, since the trainer may outlive the caller's. Errors: TRINE_ENOMEM. Not
 * collective. */
trine_status trainer_own_strings(trine_trainer *t);

/* What the run's tokenizer must fit; borrowed from the trainer. */
run_tokenizer_fit trainer_tokenizer_fit(const trine_trainer *t);

/* Whether `path` is one of the token files, under any name. Not collective. */
bool trainer_has_file(const trine_trainer *t, const char *path);

/* The token that ends documents is known, if one is needed. Errors: TRINE_EINVAL, on every rank alike. Not
 * collective. */
trine_status trainer_check_documents(const trine_trainer *t);

/* Refuses `call` unless the step that runs in parts is from `first` to `last`. Errors: TRINE_EINVAL names both. Not
 * collective. */
trine_status trainer_expect(const trine_trainer *t, const char *call, trainer_part first, trainer_part last);
/* The same for what needs PART_NONE. */
trine_status trainer_between_steps(const trine_trainer *t, const char *call);

/* Of the next update. Pure. */
double trainer_learning_rate(const trine_trainer *t);
/* What comes before the program of a training step. Errors: those of trine_trainer_step. Collective over: world. */
trine_status trainer_begin_step(trine_trainer *t, trainer_step *s);
/* What comes after it; asked: its norm is finite, but the caller wanted no update. Errors: as above. Collective over:
 * world. */
trine_status trainer_end_step(trine_trainer *t, trainer_step *s, bool asked, trine_metrics *metrics);

/* Losses of global batches, each with the share of its tokens that are supervised as its weight. */
typedef struct {
    double loss, weight;
} trainer_sum;

/* Adds the loss of global batch i of the validation. Errors: those of trine_trainer_eval.
 * Collective over: world. */
trine_status trainer_eval_batch(trine_trainer *t, int i, trainer_sum *sum);
/* *loss = the mean over all supervised tokens. Errors: TRINE_EDATA if there is none. Not collective. */
trine_status trainer_eval_mean(const trine_trainer *t, const trainer_sum *sum, double *loss);

#endif
