/* Trine: distributed training of GPT-style transformers over data, tensor and pipeline parallel
 * ranks with ZeRO-0/1/2/3, started by mpirun. This header is the whole public API, but for
 * checkpoints (trine_checkpoint.h), text from a trained model (trine_generate.h), models of one's own
 * (trine_model.h) and a linear layer by itself (trine_linear.h).
 *
 * Conventions. Every function that can fail returns a trine_status; on failure a trail of
 * file:line frames is kept and trine_error_print() shows it once. "Collective over: G" means that
 * every rank of group G must make the call, in the same order, with the same sizes; "not
 * collective" functions may be called by any rank alone. `count` is elements, `bytes` is bytes.
 * What a create function returns is owned by the caller and ended by the matching destroy, which
 * sets the caller's pointer to NULL. Nothing here is safe to call from two threads at once. */
#ifndef TRINE_H
#define TRINE_H

#include "trine_comm.h"

#define TRINE_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

/* Lists of layers: trine_model.h. */
typedef struct trine_family trine_family;

/* The transformer, by default GPT-2 (Radford et al., "Language models are unsupervised multitask learners",
 * 2019): pre-layer-norm blocks, GELU (tanh form), learned positions, biases everywhere. */
typedef struct {
    const trine_family *family; /* NULL: trine_gpt2 */
    int num_layers;          /* L */
    int hidden_size;         /* C; a multiple of num_attention_heads */
    int num_attention_heads; /* H; a multiple of tp */
    int ffn_hidden_size;     /* width of the MLP; 0 means 4C */
    int seq_length;          /* T, tokens per sample */
    int vocab_size;          /* V; 0 means the token file's; padded to tp inside, never outside */
    bool untied;             /* true: the output head has a matrix of its own */
    double hidden_dropout;    /* in [0, 1): of the embeddings' sum and of what joins the residual */
    double attention_dropout; /* in [0, 1): of the attention's probabilities */
} trine_model;

typedef enum { TRINE_ZERO_0, TRINE_ZERO_1, TRINE_ZERO_2, TRINE_ZERO_3 } trine_zero;

#define TRINE_SCHEDULE_LIST(X)                                                                     \
    X(TRINE_NAIVE, "naive", "one micro-batch in flight")                                           \
    X(TRINE_GPIPE, "gpipe", "all forwards, then all backwards")                                    \
    X(TRINE_1F1B, "1f1b", "one forward, one backward")

typedef enum {
#define TRINE_SCHEDULE_ENUM(name, text, words) name,
    TRINE_SCHEDULE_LIST(TRINE_SCHEDULE_ENUM)
#undef TRINE_SCHEDULE_ENUM
    TRINE_SCHEDULES
} trine_schedule;

/* What a unit keeps between forward and backward (Korthikanti et al., "Reducing activation
 * recomputation in large transformer models", MLSys 2023). Attention's scores and probabilities, which
 * that paper's selective recomputation drops, are never kept here.
 *   none        what backward reads
 *   selective   not what a norm or GELU can rebuild from what is kept: no product is done again
 *   full        the unit's input alone
 * No bit depends on it. */
#define TRINE_RECOMPUTE_LIST(X)                                                                    \
    X(TRINE_RECOMPUTE_NONE, "none")                                                                \
    X(TRINE_RECOMPUTE_SELECTIVE, "selective")                                                      \
    X(TRINE_RECOMPUTE_FULL, "full")

typedef enum {
#define TRINE_RECOMPUTE_ENUM(name, text) name,
    TRINE_RECOMPUTE_LIST(TRINE_RECOMPUTE_ENUM)
#undef TRINE_RECOMPUTE_ENUM
    TRINE_RECOMPUTES
} trine_recompute;

typedef struct {
    trine_layout layout;  /* dp 0: what is left of the ranks */
    trine_zero zero;      /* what dp ranks share: Rajbhandari et al., "ZeRO", SC 2020, section 5 */
    trine_schedule schedule;
    bool split_backward;  /* parameter gradients come after the input's, which is sent on; same bits */
    const char *pp_split; /* NULL: by cost. "e,5,5,h": a stage of the embedding, two of five layers,
                             one of the head; embedding and head join the first and last stage that
                             has a number when they are not named */
    int gather_buffers;   /* ZeRO-3: buffers per class (block; embedding and head), at least 1 */
    bool sequence_parallel; /* between the tp regions a tp rank has its share of a micro-batch's rows
                               only (Korthikanti et al. 2023, section 4.2.2); tp must divide
                               micro-batch x sequence */
    trine_recompute recompute;
    int loss_chunk; /* rows whose logits exist at a time; 0: 2^25 logits of all tp ranks, 2^28 on GPUs */
    int ranks_per_node;   /* 0: as MPI finds it */
    trine_transport transport; /* see trine_world_transport */
    const char *device;   /* "cpu", "ref", or "cuda": NVIDIA GPUs, one a rank or shared by some */
    const char *cuda_library; /* cuda: the file of its shared object; NULL: looked for beside the
                                 program, in ../lib from there, and where the loader looks */
    bool tf32;            /* cuda: matrices of fp32 are multiplied in TF32, see docs/numbers.md */
    int threads;          /* per rank; 0: the affinity mask shared by the node's ranks */
    double timeout;       /* seconds without progress before the job is ended; 0: never */
    double io_timeout;    /* of one call of the file system; 0: never */
    bool audit;           /* compare every collective over its group first; hash replicas */
    bool serial;          /* finish each instruction, but for sends, before the next (bisecting) */
    bool ordered_reductions; /* NCCL moves addends, and they are added in rank order: the bits that
                                any other transport gives; under audit always */
    bool stage_messages;  /* cuda: messages that NCCL does not move go through host memory, also
                             where MPI is CUDA-aware */
    bool one_queue;       /* the programs that NCCL gets, for one in-order queue a device, messages in
                             groups: any transport runs them, to the same bits */
} trine_parallel;

/* Mixed precision (Micikevicius et al., "Mixed precision training", ICLR 2018): 16-bit weights,
 * activations and their gradients; fp32 master weights, moments and sums of weight gradients; the
 * update is done on the master and cast back. fp16 scales the loss, so that small gradients are
 * numbers: a step whose gradients are not all finite is skipped by every rank, after `hysteresis` of
 * them the scale is halved, and after loss_scale_window good ones in a row doubled (Megatron-LM's
 * DynamicGradScaler). bf16 has fp32's range and no scale. */
typedef struct {
    bool bf16, fp16;         /* at most one; none: fp32 */
    trine_dtype grads;       /* of weight gradients: TRINE_F32, or the 16-bit type in use, in which
                                they are then added up and reduced, too */
    double loss_scale;         /* fp16: fixed at this; 0: dynamic */
    double initial_loss_scale, min_loss_scale; /* overflow at the minimum ends the job */
    int loss_scale_window, hysteresis;
} trine_precision;

typedef enum { TRINE_DECAY_COSINE, TRINE_DECAY_LINEAR, TRINE_DECAY_CONSTANT } trine_lr_decay;

/* AdamW (Loshchilov and Hutter, 2019), linear warm-up, then decay from lr to min_lr over
 * lr_decay_iters (0: train_iters) as Megatron-LM does. */
typedef struct {
    double lr, min_lr;
    int lr_warmup_iters, lr_decay_iters;
    trine_lr_decay lr_decay_style;
    double weight_decay, adam_beta1, adam_beta2, adam_eps;
    double clip_grad; /* global norm; 0: no clipping */
    bool decay_all;   /* decay biases, norms and positions too */
} trine_optimizer;

typedef struct {
    const char *data_path;     /* token file or glob */
    const char *val_data_path; /* NULL: no validation */
    uint64_t seed;             /* of initial values and of the order of samples */
} trine_data;

typedef struct {
    trine_model model;
    trine_parallel parallel;
    trine_precision precision;
    trine_optimizer optimizer;
    trine_data data;
    int micro_batch_size;  /* samples per forward pass and rank */
    int global_batch_size; /* samples per step over all ranks: micro x dp x number of
                              micro-batches; 0: micro x dp */
    int train_iters;
    int eval_iters; /* global batches per validation */
} trine_config;

/* Defaults: gpt2's sizes with the token file's vocabulary, zero 0, 1f1b, two gather buffers, AdamW
 * with PyTorch's betas. */
trine_config trine_config_default(void);
/* Sets `model` to gpt2, gpt2-medium, gpt2-large or gpt2-xl. Errors: TRINE_EINVAL names them. */
trine_status trine_model_preset(trine_model *model, const char *name);
/* Says whether `config` can run on `ranks` ranks, and fills in what it leaves open (dp, the MLP's
 * width). All faults stand in one message, with the nearest layouts that work. Pure: opens no file,
 * so vocab_size 0 passes here. Errors: TRINE_EINVAL; *config is then as it was. Not collective. */
trine_status trine_config_check(trine_config *config, int ranks);

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct trine_trainer trine_trainer;

/* What a step measured; the same on every rank but for `seconds`. */
typedef struct {
    int64_t step;      /* counts from 1 */
    double loss;       /* nats a token, mean over the global batch */
    double grad_norm;  /* global, before clipping */
    double lr;
    double seconds;      /* on this rank's clock */
    uint64_t tokens;     /* in this step, over all ranks */
    uint64_t peak_bytes; /* the largest rank's planned memory; on GPUs that of its GPU */
    bool skipped;        /* the norm was not finite: no parameter was changed */
    int64_t skips;       /* steps skipped so far */
    double loss_scale;   /* that this step was done with; 1 but for fp16 */
} trine_metrics;

/* When to save and what to begin with; used by trine_checkpoint.h. */
typedef struct {
    const char *save;  /* folder for checkpoints; NULL: none are saved */
    int save_interval; /* steps; 0: when the run ends or is told to stop */
    int keep;          /* the newest so many stay; 0: all */
    const char *load;  /* a checkpoint, a folder of them, a Hugging Face folder; "auto": the newest
                          whole one of `save`, a fresh start if it has none; NULL: a fresh start */
    bool load_weights_only; /* fine-tuning: step 0 and a new optimizer */
    double max_minutes;     /* save and stop after that long; 0: never */
} trine_checkpoint;

/* A trainer's command line: the example trainers' options, Megatron-LM's words where it has one.
 * They fill the structs and nothing else. */
typedef struct {
    bool help, dry_run, explain;
    int explain_what; /* 0: the programs, 1: the model's lists of layers */
    int ranks; /* for --dry-run and --explain; 0: dp x tp x pp */
    int log_interval, eval_interval; /* steps; 0: no lines, no validation but the last */
    const char *log;                 /* JSON lines; NULL: none */
    double peak_tflops;              /* of one rank; 0: unknown */
    bool profile;                    /* measure the steps, print where their time went */
    const char *profile_json;        /* the same as JSON; NULL: none. Sets profile */
    trine_checkpoint checkpoint;
} trine_run;

/* Fills config (trine_config_default, or a preset with --model, changed by the options) and run
 * from argv, whose strings they will point to. All mistakes stand in one message.
 * Errors: TRINE_EINVAL. Not collective. */
trine_status trine_parse(int argc, char **argv, trine_config *config, trine_run *run);
/* Whether all ranks were given the same of what a training loop does together (eval_interval,
 * profile). trine_trainer_create compares the configuration, trine_trainer_load the checkpoint's
 * part. Errors: TRINE_EINVAL, on every rank, names each option that differs, its values and the ranks
 * that have them; TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status trine_run_agree(trine_world *world, const trine_run *run);
/* Prints the options with their defaults. Errors: TRINE_EIO. Not collective. */
trine_status trine_usage(const char *program, FILE *out);

/* Checks the configuration, opens the data, builds the mesh, plans and takes all memory, makes and
 * proves the program, and sets the initial parameters. `world` must outlive the trainer. A failure
 * of configuration, data or memory on any rank is every rank's (see trine_world_agree). Ranks that
 * were given different configurations, or see different data (by fingerprints of the files), are
 * refused with who has what; threads, timeout and paths may differ. *trainer is owned by the caller;
 * `config` and its strings are copied. SIGXFSZ is ignored from here on, unless the program handles
 * it. Errors: TRINE_EINVAL, TRINE_EDATA, TRINE_EIO, TRINE_ENOMEM, TRINE_EMATH, TRINE_EPROGRAM,
 * TRINE_EAUDIT, TRINE_EMPI; TRINE_EUNSUPPORTED when device cuda finds no object or no GPU that it
 * can use. Collective over: world. */
trine_status trine_trainer_create(trine_trainer **trainer, trine_world *world,
                                  const trine_config *config);
/* Collective over: world. */
void trine_trainer_destroy(trine_trainer **trainer);
/* One optimizer step on the next global batch. Allocates nothing, but for the maths library's
 * primitives in the first one. Errors: TRINE_EDATA for a token outside the vocabulary; TRINE_EMATH,
 * TRINE_EMPI; TRINE_EAUDIT under audit. An error is this rank's alone: trine_abort ends the job.
 * TRINE_EOVERFLOW, on every rank: the loss scale would have to be less than its minimum; names the
 * step, the last finite norm, and the tensor, unit and rank that overflowed first.
 * Collective over: world. */
trine_status trine_trainer_step(trine_trainer *trainer, trine_metrics *metrics);
/* Mean loss over eval_iters global batches of the validation file, always the same ones.
 * Errors: TRINE_EINVAL without val_data_path; those of a step. Collective over: world. */
trine_status trine_trainer_eval(trine_trainer *trainer, double *loss);
/* Measures the steps from now on, without the first `skip`, in which caches and the maths library
 * warm up: time by instruction, operator, message and collective. The numbers of a step are the
 * same bits, evaluations are not measured. Begins anew if there was a profile already. With `path`
 * (NULL: none) world rank 0 opens the file, for a line of JSON from each
 * trine_trainer_profile; the first of them begins it anew. Errors, on every rank alike: TRINE_EINVAL
 * for a negative skip, or when `path` is one of the token files or the log's; TRINE_EIO,
 * TRINE_ENOMEM. Collective over: world. */
trine_status trine_trainer_profile_start(trine_trainer *trainer, int skip, const char *path);
/* What TRINE_PROFILE_SKIP steps leave out is enough for a steady one. */
#define TRINE_PROFILE_SKIP 2
/* Prints the profile of the steps so far, as means of a step: rank 0's tables of instructions and
 * of operators and messages, each of which sums to the step, with rates against limits; what all
 * ranks spend computing, waiting and communicating, by name; tokens/s and utilisation. The limits
 * are measured here, the first time, in some seconds: matmuls of the model's largest shapes by the
 * trainer's device, and a triad (McCalpin, 1995), on all ranks at once, so that they are what this
 * layout leaves to a rank. World rank 0 alone writes. Measuring goes on after it. The line of JSON
 * is {"first_step", "last_step", "seconds", "tokens", "flops", "tokens_per_second", "utilisation",
 * "instructions": [{"kind", "calls", "seconds", "waiting", "computing", "communicating", "other"}],
 * "interpreter_seconds", "operators": [{"name", "calls", "seconds", "flops" or "bytes", "limit"}],
 * "messages": [{"group", "name", "calls", "seconds", "bytes"}], "rest_seconds", "bound_seconds"
 * (the operators' at their limits), "ranks": [{"rank", "pp", "dp", "tp", "seconds", the four parts,
 * "matmul_limit", "triad_limit"}]}; times, counts and work are means of a step.
 * Errors: TRINE_EINVAL when no profile was started; TRINE_EIO, on every rank alike, when the line
 * cannot be written: the file has no part of it, and the trainer is as it was; TRINE_ENOMEM,
 * TRINE_EMATH; the collectives' own. Collective over: world. */
trine_status trine_trainer_profile(trine_trainer *trainer, FILE *out);
/* The configuration with everything filled in, and the mesh; owned by the trainer. */
const trine_config *trine_trainer_config(const trine_trainer *trainer);
const trine_mesh *trine_trainer_mesh(const trine_trainer *trainer);
/* Prints layout, stages, batch arithmetic, threads and memory plan. Only world rank 0 writes; the
 * others may call and nothing happens. Errors: TRINE_ENOMEM. Not collective. */
trine_status trine_trainer_banner(trine_trainer *trainer, FILE *out);

/* ---- Logging --------------------------------------------------------------------------------- */

typedef struct trine_log trine_log;

/* What a run says while it goes: a line a step (and a progress bar where `out` is a terminal), and
 * JSON lines in the file `path` (NULL: none). The file is begun anew by a trainer that has made no
 * step; one that goes on from a checkpoint (load it before) continues it behind the lines of the
 * steps that are done, and later ones, which an earlier run made after that checkpoint, are cut off:
 * the file is then that of one run. Only world rank 0 writes; the others may call and nothing
 * happens. peak_tflops is one rank's, for the utilisation; 0: unknown. The log must not outlive the
 * trainer. Errors: TRINE_EIO, TRINE_ENOMEM; TRINE_EINVAL when `path` is one of the token files or the
 * file of a profile that was started: nothing is changed then. Not collective. */
trine_status trine_log_create(trine_log **log, trine_trainer *trainer, FILE *out, const char *path,
                              double peak_tflops);
/* Not collective. */
void trine_log_destroy(trine_log **log);
/* *has = whether the file that the log continues already has the validation of the step that the
 * trainer stands at. Collective over: world. */
trine_status trine_log_has_val(const trine_log *log, bool *has);
/* Whether every line is in the file. A line that cannot be written (a full disk) ends no run: it is
 * said on standard error, the file has a gap, and lines follow when there is room again. Errors, on
 * world rank 0: TRINE_EIO says how many are missing. Not collective. */
trine_status trine_log_check(const trine_log *log);
/* {"step", "loss", "grad_norm", "lr", "tokens" (so far), "seconds", "tokens_per_second",
 * "peak_bytes", "loss_scale", "skips" (so far)}, numbers with 17 significant digits, null where a
 * number is not finite; on `out` every `interval` steps, and whenever a step was skipped.
 * Errors: TRINE_ENOMEM. */
trine_status trine_log_step(trine_log *log, const trine_metrics *metrics, int interval);
/* {"step", "val_loss"}. Errors: TRINE_ENOMEM. */
trine_status trine_log_val(trine_log *log, int64_t step, double loss);

/* The next four look at a job of `ranks` ranks (0: as many as the layout asks for, dp 0 being 1)
 * without starting it, and need no data but the token file's vocabulary, where config leaves that
 * open. Errors: TRINE_EINVAL as trine_config_check, or without a vocabulary; TRINE_EIO and
 * TRINE_EDATA from the token file; TRINE_EIO when `out` does not take all; TRINE_ENOMEM;
 * TRINE_EPROGRAM. Not collective. */

/* Prints bytes of one rank by kind, bubble and traffic of every stage. */
trine_status trine_dry_run(const trine_config *config, int ranks, FILE *out);
/* Prints the picture of who computes what when, one line a stage, and its idle part beside the
 * schedule's bubble formula. */
trine_status trine_draw(const trine_config *config, int ranks, FILE *out);
/* Prints every stage's program, then the picture. */
trine_status trine_explain(const trine_config *config, int ranks, FILE *out);
/* The model's lists of layers: what each reads and writes, in which shape, its tensors, what tp ranks send. Errors:
 * TRINE_EINVAL. Not collective. */
trine_status trine_explain_layers(const trine_config *config, int ranks, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
