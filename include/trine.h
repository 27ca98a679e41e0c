/* Trine: distributed training of GPT-style transformers over data-, tensor- and pipeline-parallel
 * ranks with ZeRO-0/1/2/3, started by mpirun. This header is the public API, with the values that its fields take in
 * trine_types.h and communication in trine_comm.h, except for checkpoints (trine_checkpoint.h), a training loop of
 * one's own (trine_loop.h), text generation (trine_generate.h), user-defined models (trine_model.h), a single linear
 * layer (trine_linear.h) and worlds of a program's own MPI communicators (trine_mpi.h).
 *
 * Conventions. Every function that can fail returns a trine_status; on failure a trail of
 * file:line frames is kept, which trine_error_print() prints once. "Collective over: G" means that
 * every rank of group G must make the call, in the same order, with the same sizes; "not
 * collective" functions may be called by any rank alone. `count` is elements, `bytes` is bytes.
 * What a create function returns is owned by the caller and released by the matching destroy, which
 * sets the caller's pointer to NULL; destroy of NULL, or of a pointer to NULL, does nothing. NULL for another pointer
 * is TRINE_EINVAL with the names of function and argument, before anything is done, unless the function's comment
 * allows it; buffers of 0 elements may be NULL. A function that returns a value instead of a status returns 0, "" or
 * NULL for NULL (trine_comm_transport: "none"), and one that returns nothing does nothing. The same holds for a
 * world, mesh, group, trainer, log, generator or layer that has been destroyed, that is made from a destroyed one, or
 * that never was one: TRINE_EINVAL, and a function without a status prints the message, as it does for any other
 * wrong value. (A copy of a destroyed pointer is not told from a new thing of its kind at the same address.) What is
 * made from another thing is destroyed before it. The functions of worlds, and of what is made from them, are called
 * by one thread of a process at a time: docs/api.md, "Threads". */
#ifndef TRINE_H
#define TRINE_H

#include "trine_types.h"

#define TRINE_VERSION "0.2.0"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Configuration --------------------------------------------------------------------------- */

/* The transformer, by default GPT-2 (Radford et al., "Language models are unsupervised multitask learners",
 * 2019): pre-layer-norm blocks, GELU (tanh form), learned positions, biases everywhere. `family` decides which layers
 * it has, and so which of the later sizes are used (trine_model.h). */
struct trine_model {
    const trine_family *family; /* NULL: trine_gpt2 */
    int num_layers;          /* L */
    int hidden_size;         /* C */
    int num_attention_heads; /* H; a multiple of tp */
    int ffn_hidden_size;     /* width of the MLP; 0 means 4C */
    int seq_length;          /* T, tokens per sample */
    int vocab_size;          /* V; 0 means the token file's; padded to tp inside, never outside */
    bool untied;             /* true: the output head does not share the token embedding */
    int num_query_groups;    /* K, heads of keys and values (Ainslie et al., "GQA", 2023): divides H, and one of K and
                                tp divides the other; 0: H */
    int kv_channels;         /* D, width of a head; 0: C / H */
    double norm_epsilon;     /* added to a variance or a mean square; 0: 1e-5 */
    double rotary_base;      /* theta of rotary positions (Su et al., "RoFormer", 2021); 0: 10000 */
    trine_rope_scaling rope_scaling;
    int max_positions;       /* with rotary positions: how many the model's files state, where these are more than
                                seq_length; no number of a training depends on it; 0: seq_length */
    double hidden_dropout;    /* in [0, 1): of the embeddings' sum and of residual branches */
    double attention_dropout; /* in [0, 1): of the attention probabilities */
    trine_lora lora;
    const char *trained;      /* which tensors are trained, the others are frozen: "-GLOB" freezes and "+GLOB" trains
                                 those whose names in files match (fnmatch), separated by commas; the last that
                                 matches counts. Borrowed; NULL: all, with adapters theirs alone */
};

struct trine_parallel {
    trine_layout layout;  /* dp 0: ranks / (tp x pp) */
    trine_zero zero;      /* what is sharded over dp: Rajbhandari et al., "ZeRO", SC 2020, section 5 */
    trine_schedule schedule;
    const char *schedule_file; /* an order of the stages' work in the CSV of torch.distributed.pipelining, instead
                                  of `schedule`; NULL: none (docs/schedules.md) */
    int virtual_stages;   /* model chunks per stage (Narayanan et al. 2021, section 2.2); 0: 2 for zbv and v-half,
                             the file's, else 1 */
    bool split_backward;  /* send the input's gradient before computing parameter gradients; same bits */
    const char *pp_split; /* NULL: balanced by cost. "e,5,5,h": a stage of the embedding, two of five
                             layers, one of the head; when not named, embedding and head belong to
                             the first and the last stage. With virtual stages: a part for each chunk */
    int gather_buffers;   /* ZeRO-3: buffers per class (block; embedding and head), at least 1 */
    int reduce_buffers;   /* ZeRO-2 and 3: the same for gradients that are summed over dp; with dp 1: one */
    bool sequence_parallel; /* shard activations along the sequence between tp regions
                               (Korthikanti et al. 2023, section 4.2.2); tp must divide
                               micro-batch x sequence */
    trine_recompute recompute;
    bool keep_recomputed; /* full recomputation: keep what the input's gradient needed until the schedule computes
                             parameter gradients; else they follow at once */
    int loss_chunk; /* rows of logits computed at a time; 0: 2^25 logits of all tp ranks, 2^28 on GPUs */
    int ranks_per_node;   /* 0: as detected by MPI */
    uint64_t memory;      /* bytes that a rank may take, on a GPU with its libraries: a plan that needs more is
                             refused before the first message; 0: not limited */
    trine_transport transport; /* see trine_world_transport */
    const char *device;   /* "cpu", "ref", or "cuda": NVIDIA GPUs, one per rank or shared by ranks */
    const char *cuda_library; /* cuda: path of its shared object; NULL: searched beside the program,
                                 in ../lib from there, and in the loader's path */
    bool tf32;            /* cuda: multiply fp32 matrices in TF32, see docs/numbers.md */
    int threads;          /* per rank; 0: the affinity mask divided among the node's ranks */
    double timeout;       /* seconds without progress before the job is aborted; 0: never */
    double io_timeout;    /* the same for one file system call; 0: never */
    bool audit;           /* verify every collective across its group first; compare hashes of replicas */
    bool serial;          /* complete each instruction, except sends, before the next (debugging) */
    bool ordered_reductions; /* NCCL moves addends, which are added in rank order: bitwise equal to
                                the other transports; always on under audit */
    int nccl_lane_ctas;   /* most thread blocks, to 64, of NCCL's kernels that send or receive between stages:
                             while one waits for a peer, it holds as many multiprocessors; 0: NCCL's choice */
    bool stage_messages;  /* cuda: messages not sent by NCCL go through host memory even if MPI is
                             CUDA-aware */
    bool one_queue;       /* run the programs made for NCCL, with one in-order queue per device and
                             message groups; any transport runs them, to the same bits */
    bool exact;           /* sums over dp and tp in an order that the layout does not change: equal bits on every
                             layout with dp dividing exact_dp and exact_tp / tp a power of two, or tp 1
                             (docs/numbers.md) */
    int exact_dp;         /* D: sums over dp are those of so many ranks. dp divides it, and it divides the step's
                             micro-batches, global / micro; 0: as many */
    int exact_tp;         /* T: the same for tp; 0: tp */
    bool exact_threads;   /* cpu: no bit depends on the number of threads: products by oneDNN's brgemm alone, and
                             TRINE_EUNSUPPORTED where there is none; ref: always so; refused with cuda */
    trine_cpu_level cpu_level; /* cpu: the same on all ranks; TRINE_EUNSUPPORTED where the build or a processor lacks
                                  it, or where oneDNN has been used at a higher one in this process */
};

/* Mixed precision (Micikevicius et al., "Mixed precision training", ICLR 2018): 16-bit weights,
 * activations and their gradients; fp32 master weights, moments and sums of weight gradients; the
 * update is applied to the master weights and cast back. fp16 scales the loss, so that small gradients
 * do not underflow: a step whose gradients are not all finite is skipped by every rank, after
 * `hysteresis` such steps the scale is halved, and after loss_scale_window finite steps in a row it is
 * doubled (Megatron-LM's DynamicGradScaler). bf16 has fp32's range and no loss scale. */
struct trine_precision {
    bool bf16, fp16;         /* at most one; none: fp32 */
    trine_dtype grads;       /* of weight gradients: TRINE_F32, or the 16-bit compute type, in which
                                they are then accumulated and reduced */
    double loss_scale;         /* fp16: static loss scale; 0: dynamic */
    double initial_loss_scale, min_loss_scale; /* an overflow at the minimum aborts the job */
    int loss_scale_window, hysteresis;
};

/* AdamW (Loshchilov and Hutter, 2019), linear warm-up, then decay from lr to min_lr over
 * lr_decay_iters (0: train_iters) as Megatron-LM does. */
struct trine_optimizer {
    double lr, min_lr;
    int lr_warmup_iters, lr_decay_iters;
    trine_lr_decay lr_decay_style;
    int lr_wsd_decay_iters; /* WSD: steps of the decay, which ends at lr_decay_iters; trine_trainer_checkpoint lets it
                               begin earlier, to end with max_minutes */
    trine_wsd_decay lr_wsd_decay_style;
    double weight_decay, adam_beta1, adam_beta2, adam_eps;
    double clip_grad; /* global norm; 0: no clipping */
    bool decay_all;   /* decay biases, norms and positions too */
};

struct trine_data {
    const char *data_path;     /* token file, glob, or a blend by weight: "0.7 a_*.bin 0.3 b.bin", with a backslash
                                  before blanks and backslashes in a path */
    const char *val_data_path; /* the same; NULL: no validation */
    uint64_t seed;             /* of initial parameters and of the sample order */
    const char *tokenizer;     /* tokenizer.json, or a folder with one, which only rank 0 reads: must fit the
                                  vocabulary and the hash in the token files, and is saved in checkpoints.
                                  NULL: that of the folder that is loaded, if it has one */
    bool in_order;             /* samples in the order of the files, in every epoch: sample i is tokens i T to
                                  (i + 1) T */
    trine_reset reset_attention_mask; /* attention: a token attends to its document's tokens only */
    trine_reset reset_position_ids;   /* positions: a document's first token has position 0 */
    int end_token; /* for files that do not say where documents begin: the id that ends one; the next token begins
                      another. -1: the tokenizer's. Read only with a reset that is YES */
};

/* The recorder (docs/seeing.md). */
struct trine_trace {
    const char *file;  /* of all ranks' instructions, waits, collectives and messages in these steps; NULL: none */
    trine_steps steps;
    bool no_ring;      /* do not record the last two steps */
};

struct trine_config {
    trine_model model;
    trine_parallel parallel;
    trine_precision precision;
    trine_optimizer optimizer;
    trine_data data;
    trine_trace trace;
    int micro_batch_size;  /* samples per forward pass and rank */
    int global_batch_size; /* samples per step over all ranks: micro x dp x number of
                              micro-batches; 0: micro x dp */
    int train_iters;
    int eval_iters; /* global batches per validation */
    double epochs;  /* not 0: train_iters is replaced by the fewest steps that read data_path so often, which
                       trine_trainer_create finds; trine_trainer_config has them, and 0 here */
};

/* Defaults: gpt2's sizes with the token file's vocabulary, zero 0, 1f1b, two gather buffers, AdamW
 * with PyTorch's betas. */
trine_config trine_config_default(void);
/* Sets `model` to one that is known by name: gpt2, llama3.1-8b, qwen3-0.6b ... (src/model/preset.h). Errors:
 * TRINE_EINVAL names them. */
trine_status trine_model_preset(trine_model *model, const char *name);
/* Checks whether `config` can run on `ranks` ranks, and fills in what it leaves open (dp, the MLP's
 * width). One message reports all faults, with the nearest valid layouts. Pure: opens no file, so
 * vocab_size 0 passes here, and with epochs the number of steps stays open. Errors: TRINE_EINVAL; *config is then
 * unchanged. Not collective. */
trine_status trine_config_check(trine_config *config, int ranks);
/* Bytes of a struct or union of these headers by its name, "trine_config", for a language that calls the library and
 * does not read C: memory of this size holds one (docs/python.md). 0: there is none of that name. Pure. */
size_t trine_struct_size(const char *name);

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct trine_trainer trine_trainer;

/* Metrics of a step; the same on every rank except `seconds`. */
struct trine_metrics {
    int64_t step;      /* counts from 1 */
    double loss;       /* nats a token, mean over the supervised tokens of the global batch; NaN without any */
    double grad_norm;  /* global, before clipping */
    double lr;
    double seconds;      /* on this rank's clock */
    uint64_t tokens;     /* in this step, over all ranks */
    uint64_t supervised; /* of them those whose next token has a loss: all, but in files with a mask */
    uint64_t peak_bytes; /* the largest rank's planned memory; on GPUs that of its GPU */
    bool skipped;        /* no parameter was updated: the norm was not finite, no token was supervised, or
                            trine_trainer_skip (trine_loop.h) */
    int64_t skips;       /* steps skipped so far */
    double loss_scale;   /* of this step; 1 except in fp16 */
    double joules;       /* of all nodes' processors in this step; 0: not all of them tell it */
};

/* When to save and what to load; used by trine_checkpoint.h. */
struct trine_checkpoint {
    const char *save;  /* folder for checkpoints; NULL: none are saved */
    int save_interval; /* steps; 0: only at the end or on a request to stop */
    int keep;          /* number of newest checkpoints to keep; 0: all */
    const char *save_at_tokens; /* counts of tokens, ascending, "1M,10M,1500K": also after the step that reaches one
                                   of them; `keep` neither removes nor counts these checkpoints. NULL: none */
    const char *load;  /* a checkpoint, a folder of them, a Hugging Face folder; "auto": the newest
                          committed one of `save`, if any; NULL: none, start at step 0 */
    bool load_weights_only; /* fine-tuning: start at step 0 with a new optimizer */
    const char *pretrained; /* where `load` is "auto" and `save` has no checkpoint yet: what to load the weights of,
                               so that a fine-tuning's first start and restarts are one command; NULL: none */
    const char *adapter;    /* a folder of low-rank adapters as PEFT writes them, which a new run adds to the weights
                               of `load` or `pretrained` and trains; NULL: none */
    double max_minutes;     /* save and stop after this many minutes; 0: never. With TRINE_DECAY_WSD the decay begins
                               in time to end before */
};

/* A layout that trine_plan has chosen. */
struct trine_planned {
    double seconds;    /* of a step, by the forecast; 0: there is no plan */
    int layouts;       /* that are valid, of which it is the fastest */
    char options[240]; /* of the layout: "--dp 2 --tp 1 --pp 1 --zero 1 --micro-batch-size 4" */
};

/* A trainer's command line: the options of the example trainers, with Megatron-LM's names where it
 * has them. They fill the structs and nothing else. */
struct trine_run {
    const char *model; /* the name of a preset (trine_model_preset); "custom": none */
    bool help, dry_run, explain; /* help: also --version: trine_usage prints what was asked for */
    const char *export_schedule; /* file to write the schedule to (trine_export_schedule); NULL: none */
    int explain_what; /* 0: the programs, 1: the model's lists of layers */
    bool layouts;     /* trine_layouts */
    int ranks; /* for --dry-run, --explain and --layouts; 0: dp x tp x pp */
    int log_interval, eval_interval; /* steps; 0: no lines; validation before the first and after the
                                        last step only */
    const char *log;                 /* JSON lines; NULL: none */
    const char *tensorboard;         /* folder for TensorBoard's event files; NULL: none */
    trine_progress progress;
    double peak_tflops;              /* of one rank; 0: unknown */
    bool profile;                    /* measure the steps and print a profile */
    const char *profile_json;        /* the same as JSON; NULL: none. Sets profile */
    const char *plan;                /* "auto": trine_plan chooses the layout; NULL: nobody does */
    const char *hardware;            /* for it: a machine's name, or the path of its file */
    unsigned plan_keeps;             /* for it: which of a layout's options, and --device, were given */
    trine_planned planned;           /* set by trine_plan */
    trine_checkpoint checkpoint;
    char data_words[4096], val_data_words[4096]; /* of blends, to which config.data then points */
    char trained_words[2048];                    /* of --freeze and --train, to which config.model.trained points */
    bool val_beside; /* set by trine_parse: config.data.val_data_path was not given, but found beside data_path */
};

/* Fills config (trine_config_default, or a preset with --model, changed by the options) and run
 * from argv; they point into argv's strings, config also into *run, and into what is kept of an @FILE. Without
 * --val-data-path it is the file that trine-tokens wrote beside data_path, PREFIX_val.bin beside PREFIX_train.bin, if
 * that is there. One message reports all mistakes; a warning on standard error, of the first rank, each value that a
 * later one overrides. Sets NCCL_LAUNCH_ORDER_IMPLICIT=1 in the environment, unless it is set, and ignores SIGXFSZ
 * from here on, unless the program handles it, so that a write beyond the limit of a file's size is TRINE_EIO.
 * Errors: TRINE_EINVAL. Not collective. */
trine_status trine_parse(int argc, char **argv, trine_config *config, trine_run *run);
/* Checks that all ranks were given the same options for what a training loop does collectively
 * (eval_interval, profile). trine_trainer_create compares the configuration, trine_trainer_load the
 * checkpoint options. Errors: TRINE_EINVAL, on every rank, names each option that differs, its values
 * and the ranks that have them; TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status trine_run_agree(trine_world *world, const trine_run *run);
/* With run->plan sets the layout of config to the fastest that fits: dp, tp, pp, virtual stages, schedule, zero,
 * micro_batch_size, recompute and sequence_parallel, those that were given excepted (docs/planning.md); the device to
 * that of the hardware, unless it was given; and run->planned. Without, nothing changes. World rank 0 reads
 * run->hardware and searches, and sends the others what it has found, so that all have the same; before,
 * configurations are compared as in trine_trainer_create. world NULL: no job, run->ranks ranks. Errors: TRINE_EINVAL
 * if no layout is valid or fits, for unknown hardware, for device cuda on hardware of CPUs, or if a node has more
 * ranks than that of the hardware; TRINE_EDATA, TRINE_EIO from the files; TRINE_ENOMEM. Collective over: world. */
trine_status trine_plan(trine_world *world, trine_config *config, trine_run *run);
/* Prints the options with their defaults. Errors: TRINE_EIO. Not collective. */
trine_status trine_usage(const char *program, FILE *out);

/* Checks the configuration, opens the data, builds the mesh, plans and allocates all memory,
 * generates and verifies the program, and initializes the parameters. `world` must outlive the
 * trainer. A failure of configuration, data or memory on any rank fails on every rank (see
 * trine_world_agree). Ranks with different configurations or data (compared by fingerprints of the
 * files) are refused, with the values of each rank; threads, timeout and paths may differ. *trainer is
 * owned by the caller; `config` and its strings are copied. Errors: TRINE_EINVAL, TRINE_EDATA, TRINE_EIO,
 * TRINE_ENOMEM, TRINE_EMATH, TRINE_EPROGRAM, TRINE_EAUDIT, TRINE_EMPI; TRINE_EUNSUPPORTED if device cuda finds no
 * shared object or no usable GPU. Collective over: world. */
trine_status trine_trainer_create(trine_trainer **trainer, trine_world *world,
                                  const trine_config *config);
/* Collective over: world. */
void trine_trainer_destroy(trine_trainer **trainer);
/* One optimizer step on the next global batch. Allocates nothing, except the math library's primitives in the
 * first one, and a window (docs/formats.md) while it is read. Errors: TRINE_EDATA for a token outside the
 * vocabulary; TRINE_EMATH, TRINE_EMPI; TRINE_EAUDIT under audit. These errors are local to this rank: trine_abort
 * aborts the job. TRINE_EOVERFLOW, on every rank: the loss scale would have to fall below its minimum; the message
 * names the step, the last finite norm, and the tensor, unit and rank that overflowed first. Collective over:
 * world. */
trine_status trine_trainer_step(trine_trainer *trainer, trine_metrics *metrics);
/* Mean loss over the supervised tokens of eval_iters global batches of the validation file, the same ones in every
 * call. Errors: TRINE_EINVAL without val_data_path; TRINE_EDATA if none of the tokens is supervised; those of a step.
 * Collective over: world. */
trine_status trine_trainer_eval(trine_trainer *trainer, double *loss);
/* Profiles the steps from now on, except the first `skip`, in which caches and the math library
 * warm up: time by instruction, operator, message and collective. The results of a step are bitwise
 * unchanged; evaluations are not measured. Replaces an earlier profile. With `path` (NULL: none)
 * world rank 0 writes the file, to which each trine_trainer_profile adds a line of JSON; the first one
 * replaces an earlier file, and at any time the file has complete lines. Errors, on every rank
 * alike: TRINE_EINVAL for a negative skip, or if `path` is one of the token files or the log;
 * TRINE_EIO, TRINE_ENOMEM. Collective over: world. */
trine_status trine_trainer_profile_start(trine_trainer *trainer, int skip, const char *path);
/* Steps to skip until the timing is steady. */
#define TRINE_PROFILE_SKIP 2
/* Prints the profile of the steps so far, as means per step: rank 0's tables of instructions and
 * of operators and messages, each of which sums to the step, with rates against limits; the time of
 * every rank in computation, waiting and communication; tokens/s and utilisation. The first call
 * measures the limits, which takes some seconds: matmuls of the model's largest shapes on the
 * trainer's device, and a triad (McCalpin, 1995), on all ranks at once, so that they are what a rank
 * gets under this layout. Only world rank 0 writes. Measuring continues after the call. The line of
 * JSON is {"first_step", "last_step", "seconds", "tokens", "flops", "tokens_per_second", "utilisation",
 * "instructions": [{"kind", "calls", "seconds", "waiting", "computing", "communicating", "other"}],
 * "interpreter_seconds", "operators": [{"name", "calls", "seconds", "flops" or "bytes", "limit"}],
 * "messages": [{"group", "name", "calls", "seconds", "bytes"}], "rest_seconds", "bound_seconds"
 * (the operators' at their limits), "ranks": [{"rank", "pp", "dp", "tp", "seconds", the four parts,
 * "matmul_limit", "triad_limit"}]}; times, counts and work are means per step.
 * Errors: TRINE_EINVAL if no profile was started; TRINE_EIO, on every rank alike, if the line cannot
 * be written: the file has no part of it, and the trainer is unchanged; TRINE_ENOMEM,
 * TRINE_EMATH; the collectives' own. Collective over: world. */
trine_status trine_trainer_profile(trine_trainer *trainer, FILE *out);
/* *tflops = the rate of the model's widest matrix product on one rank, for trine_log_create. All ranks measure it at
 * once, for a quarter of a second, and the result is their mean: what a rank gets under this layout. 0 on devices
 * other than cpu, whose peak is the data sheet's. No bit of a later step depends on it. Errors, on every rank
 * alike: TRINE_ENOMEM, TRINE_EMATH; the collectives' own. Collective over: world. */
trine_status trine_trainer_product_rate(trine_trainer *trainer, double *tflops);
/* What the trainer and its log show on `out` while they work: on world rank 0 a bar for loading, steps and saving.
 * Without this call a trine_log has the bar of TRINE_PROGRESS_AUTO. State of the process, which has one terminal.
 * Errors: TRINE_EINVAL for NULL. Not collective. */
trine_status trine_trainer_progress(trine_trainer *trainer, FILE *out, trine_progress how);
/* For a program whose process is the trainer's own, before trine_world_create and after trine_stop_catch, if that is
 * called: a signal that ends the process while a bar is on standard output erases it first. Errors: those of
 * trine_stop_catch. Not collective. */
trine_status trine_progress_catch(trine_progress how);
/* From now on a trine_log also writes its numbers into event files of TensorBoard in `folder`, those of
 * validations in its folder "validation" (docs/seeing.md). Call it after trine_trainer_load: a resumed run replaces
 * what the earlier one wrote after the step that it goes on from, a run from step 0 all. World rank 0 creates the
 * folders. Errors, on every rank alike: TRINE_EIO; TRINE_EBUSY names the process that writes events there;
 * TRINE_ENOMEM. Collective over: world. */
trine_status trine_trainer_tensorboard(trine_trainer *trainer, const char *folder);
/* Writes the file of trine_config.trace if some of its steps have run and none of its files has them: the step that
 * is the last of them does it itself, so this is for a run that ends before. text (size bytes; may be NULL) = what it
 * has, "" if nothing is written. Errors, on every rank alike: TRINE_EIO, TRINE_ENOMEM; the messages' own.
 * Collective over: world. */
trine_status trine_trainer_trace(trine_trainer *trainer, char *text, size_t size);
/* For a program whose process is the trainer's own, before trine_world_create and after trine_stop_catch, if that is
 * called: SIGUSR2 to a rank writes the last two steps of its node's ranks (docs/seeing.md). Errors: TRINE_ENOMEM. Not
 * collective. */
trine_status trine_trace_catch(void);
/* The configuration with all defaults filled in, and the mesh; owned by the trainer. */
const trine_config *trine_trainer_config(const trine_trainer *trainer);
const trine_mesh *trine_trainer_mesh(const trine_trainer *trainer);
/* Tells the trainer what trine_plan has chosen, for its banner and log, and the other options of the run, for
 * options.txt in checkpoints. Errors: TRINE_ENOMEM. Not collective. */
trine_status trine_trainer_plan(trine_trainer *trainer, const trine_run *run);
/* Prints layout, stages, batch arithmetic, threads and memory plan. Only world rank 0 writes; on
 * other ranks the call does nothing. Errors: TRINE_ENOMEM. Not collective. */
trine_status trine_trainer_banner(trine_trainer *trainer, FILE *out);

/* ---- Logging --------------------------------------------------------------------------------- */

typedef struct trine_log trine_log;

/* The log of a run: a line per step (and a progress bar, trine_trainer_progress), and JSON lines in
 * the file `path` (NULL: none). A trainer at step 0 truncates the file; a trainer resumed from a
 * checkpoint (load it first) appends after the lines of the completed steps and removes later ones,
 * which an earlier run wrote after that checkpoint, so that the file is that of one run. Only world
 * rank 0 writes; on other ranks the call does nothing, except that on all of them the file of the last two steps
 * (trine_config.trace) is written beside `path`, or in the current folder, from now on. peak_tflops is that of one
 * rank, for the utilisation; 0: unknown. The log must not outlive the trainer. Errors: TRINE_EIO, TRINE_ENOMEM;
 * TRINE_EBUSY names the process that is writing to the file, TRINE_EINVAL if `path` is one of the
 * token files or the file of a started profile: nothing is changed then. Not collective. */
trine_status trine_log_create(trine_log **log, trine_trainer *trainer, FILE *out, const char *path,
                              double peak_tflops);
/* The next line of the file gets a member "run": what was started, on which ranks, with which configuration
 * (docs/formats.md); trine-report reads it. argv is the command. Errors: TRINE_ENOMEM. Not collective. */
trine_status trine_log_run(trine_log *log, int argc, char *const *argv);
/* Not collective. */
void trine_log_destroy(trine_log **log);
/* *has = whether the log file already has the validation of the trainer's current step.
 * Collective over: world. */
trine_status trine_log_has_val(const trine_log *log, bool *has);
/* Checks that every line is in the file. A line that cannot be written (e.g. on a full disk) does not
 * abort the run: standard error reports it, the file has a gap, and later lines follow once there is
 * space again. The same holds for events. Errors, on world rank 0: TRINE_EIO with the number of missing
 * lines or events. Not collective. */
trine_status trine_log_check(const trine_log *log);
/* {"step", "loss", "grad_norm", "lr", "tokens" (so far), "supervised" (of the step), "seconds", "tokens_per_second",
 * "peak_bytes", "resident_bytes" (of this process, the most so far), "loss_scale", "skips" (so far)}, after
 * trine_trainer_plan also
 * "planned_seconds", where joules are known "joules_per_token" and "watts", after a save "checkpoint" (its step);
 * numbers with 17 significant digits, null for numbers that are not finite. On `out` every `interval` steps and for
 * skipped ones. Errors: TRINE_ENOMEM. */
trine_status trine_log_step(trine_log *log, const trine_metrics *metrics, int interval);
/* {"step", "val_loss"}. Errors: TRINE_ENOMEM. */
trine_status trine_log_val(trine_log *log, int64_t step, double loss);

/* The next five functions describe a job of `ranks` ranks (0: as many as the layout needs, with dp 0
 * taken as 1) without starting it. They need no data except the token file's vocabulary, if config
 * leaves it open, and look at the file, if it is there, for what a TRINE_RESET_AUTO means. Errors: TRINE_EINVAL as in
 * trine_config_check, or without a vocabulary; TRINE_EIO and TRINE_EDATA from the token file; TRINE_EIO if writing to
 * `out` fails; TRINE_ENOMEM; TRINE_EPROGRAM. Not collective. */

/* Prints memory by kind, bubble and traffic of every stage, for one rank. */
trine_status trine_dry_run(const trine_config *config, int ranks, FILE *out);
/* Prints a timeline of the schedule, one line per stage, and its idle fraction beside the schedule's
 * bubble formula. */
trine_status trine_draw(const trine_config *config, int ranks, FILE *out);
/* Prints every stage's program, then the timeline. */
trine_status trine_explain(const trine_config *config, int ranks, FILE *out);
/* Prints the model's lists of layers: what each reads and writes, shapes, tensors, and what tp ranks send.
 * Errors: TRINE_EINVAL. Not collective. */
trine_status trine_explain_layers(const trine_config *config, int ranks, FILE *out);

/* Prints on which layouts a run goes on when `ranks` ranks are left, the best first, at most eight: a line of options
 * each, to be put behind those of the run, "--dp 3 --tp 2 --pp 1"; beside it stands what the numbers depend on and
 * config left to the layout (--global-batch-size, --exact-dp, --exact-tp). The layout of config is the one that was
 * asked for: no line has more ranks, unless its dp is 0, and none has a deeper pipeline. Under exact all lines have
 * equal bits. The best layout has the most ranks, then the tp, then the pp that was asked for, then the largest dp;
 * `why`, unless it is NULL, gets a line with this rule. Memory is not considered. Errors: also TRINE_EINVAL for a dp
 * of 0 without ranks, global_batch_size, or with a schedule file. */
trine_status trine_layouts(const trine_config *config, int ranks, FILE *out, FILE *why);

/* Writes the order of each stage's work to `path`, replacing the file, in the CSV of torch.distributed.pipelining,
 * which trine_parallel.schedule_file reads (docs/schedules.md); a column is a unit of time if every action takes one.
 * `ranks` as in trine_dry_run. Errors: TRINE_EINVAL, TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status trine_export_schedule(const trine_config *config, int ranks, const char *path);

#ifdef __cplusplus
}
#endif

#endif
