#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "core/spec.h"
#include "device/device.h"
#include "model/family.h"
#include "model/preset.h"
#include "model/shape.h"
#include "train/load_request.h"

/* The command line of the example trainers, as one table. */

static const char *const models[] = {"custom",
#define MODEL_TEXT(text, ...) text,
                                     PRESET_LIST(MODEL_TEXT) NULL
#undef MODEL_TEXT
};
static const char *const scalings[] = {
#define SCALING_TEXT(id, text) text,
    TRINE_ROPE_LIST(SCALING_TEXT) NULL
#undef SCALING_TEXT
};
/* Values of --explain; trine_run. */
static const char *const explanations[] = {"layers", NULL};
static const char *const decays[] = {"cosine", "linear", "constant", NULL};
static const char *const zeros[] = {"0", "1", "2", "3", NULL};
static const char *const devices[] = {
#define DEVICE_TEXT(id, text) text,
    DEVICE_LIST(DEVICE_TEXT) NULL
#undef DEVICE_TEXT
};
static const char *const schedules[] = {
#define SCHEDULE_TEXT(id, text, words) text,
    TRINE_SCHEDULE_LIST(SCHEDULE_TEXT) NULL
#undef SCHEDULE_TEXT
};

static const char *const transports[] = {
#define TRANSPORT_TEXT(id, text) text,
    TRINE_TRANSPORT_LIST(TRANSPORT_TEXT) NULL
#undef TRANSPORT_TEXT
};

static const char *const recomputes[] = {
#define RECOMPUTE_TEXT(id, text) text,
    TRINE_RECOMPUTE_LIST(RECOMPUTE_TEXT) NULL
#undef RECOMPUTE_TEXT
};

/* Gradient types, and their values in the struct. */
static const char *const grad_dtypes[] = {"fp32", "bf16", "fp16", NULL};
static const trine_dtype grad_types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};

/* Values that the rows fill besides the caller's structs. */
typedef struct {
    int model, device, grads; /* indices of names */
    const char *schedule;     /* a name, or a file */
    const char *family;       /* NULL: the preset's */
} choices;

static choices default_choices(void) {
    return (choices){.schedule = schedules[trine_config_default().parallel.schedule]};
}

#define CLI_ROWS 112

/* Returns count. */
static size_t put_rows(option *rows, const option *own, size_t count) {
    memcpy(rows, own, count * sizeof *rows);
    return count;
}

static size_t model_rows(option *rows, trine_model *m, choices *c) {
    const option own[] = {
        OPTION_HEADING("Model"),
        OPTION_NAME("model", NULL, &c->model, models, "NAME",
                    "a model, whose sizes the options below override: gpt2 (-medium, -large, -xl), "
                    "smollm2-135m, llama3.2-1b, llama3.1-8b, mistral-7b, qwen2.5-0.5b, qwen3-0.6b "
                    "and more (a wrong name lists them); custom: gpt2 with the token file's "
                    "vocabulary"),
        OPTION_STRING("family", NULL, &c->family, "NAME",
                      "layers of a block: gpt2, llama, mistral, qwen2, qwen3, or a family that the "
                      "program has added"),
        OPTION_INT("num-layers", NULL, &m->num_layers, "N", 1, 32000,
                   "number of transformer blocks"),
        OPTION_INT("hidden-size", NULL, &m->hidden_size, "N", 1, INT_MAX,
                   "transformer hidden size"),
        OPTION_INT("num-attention-heads", NULL, &m->num_attention_heads, "N", 1, INT_MAX,
                   "number of attention heads; a multiple of --tp"),
        OPTION_INT("ffn-hidden-size", NULL, &m->ffn_hidden_size, "N", 0, INT_MAX,
                   "MLP hidden size; 0: 4 x --hidden-size"),
        OPTION_INT("seq-length", NULL, &m->seq_length, "N", 1, INT_MAX,
                   "sequence length in tokens"),
        OPTION_INT(
            "max-position-embeddings", NULL, &m->max_positions, "N", 0, INT_MAX,
            "rotary positions that checkpoints state, if more than --seq-length; 0: those of "
            "the folder that is loaded"),
        OPTION_INT("vocab-size", NULL, &m->vocab_size, "N", 0, INT_MAX,
                   "vocabulary size; 0: from the token file"),
        OPTION_INT("num-query-groups", NULL, &m->num_query_groups, "N", 0, INT_MAX,
                   "heads of keys and values; divides --num-attention-heads; 0: as many"),
        OPTION_INT("kv-channels", NULL, &m->kv_channels, "N", 0, INT_MAX,
                   "width of a head; 0: --hidden-size / --num-attention-heads"),
        OPTION_DOUBLE("norm-epsilon", NULL, &m->norm_epsilon, "X", 0, 1,
                      "epsilon of RMS norms; 0: 1e-5"),
        OPTION_DOUBLE("rotary-base", NULL, &m->rotary_base, "X", 0, INFINITY,
                      "theta of rotary positions; 0: 10000"),
        OPTION_CHOICE("rope-scaling", NULL, &m->rope_scaling.kind, scalings,
                      "how rotary frequencies are scaled"),
        OPTION_DOUBLE("rope-scaling-factor", NULL, &m->rope_scaling.factor, "X", 0, INFINITY,
                      "factor of --rope-scaling"),
        OPTION_FLAG("untied", "untie-embeddings-and-output-weights", &m->untied,
                    "untie the output head from the token embedding"),
        OPTION_DOUBLE("hidden-dropout", NULL, &m->hidden_dropout, "P", 0, 1,
                      "dropout probability of embeddings and residual branches"),
        OPTION_DOUBLE("attention-dropout", NULL, &m->attention_dropout, "P", 0, 1,
                      "dropout probability of attention probabilities"),
    };
    return put_rows(rows, own, sizeof own / sizeof *own);
}

static size_t parallel_rows(option *rows, trine_parallel *p, choices *c) {
    const option own[] = {
        OPTION_HEADING("Parallelism"),
#define AXIS_OPTION(axis, member, alias, help)                                                     \
    OPTION_INT(#member, alias, &p->layout.member, "N", axis == TRINE_AXIS_DP ? 0 : 1, INT_MAX,     \
               help),
        TRINE_AXIS_LIST(AXIS_OPTION)
#undef AXIS_OPTION
            OPTION_CHOICE("zero", "zero-stage", &p->zero, zeros,
                          "ZeRO stage, shards over dp: 1 optimizer state, 2 also gradients, 3 also "
                          "parameters"),
        OPTION_WORD_OR_FILE(
            "schedule", NULL, &c->schedule, schedules, "NAME|FILE",
            "pipeline schedule: naive, gpipe, 1f1b, interleaved, zb, zbv, v-half, bfs, or "
            "a file in the CSV of torch.distributed.pipelining"),
        OPTION_INT("num-virtual-stages-per-pipeline-rank", NULL, &p->virtual_stages, "N", 0,
                   STAGE_CHUNKS, "model chunks per pipeline stage; 0: as the schedule"),
        OPTION_FLAG(
            "split-backward", NULL, &p->split_backward,
            "send the gradient of a block's input before computing its parameter gradients"),
        OPTION_STRING("pp-split", NULL, &p->pp_split, "LIST",
                      "transformer blocks of each stage, e.g. e,5,5,h with e the embedding and h "
                      "the head; otherwise balanced by cost"),
        OPTION_INT("gather-buffers", NULL, &p->gather_buffers, "N", 1, 30000,
                   "ZeRO-3: buffers for gathered parameters, per buffer class"),
        OPTION_INT("reduce-buffers", NULL, &p->reduce_buffers, "N", 1, 30000,
                   "ZeRO-2 and 3: buffers for gradients to reduce, per buffer class"),
        OPTION_FLAG("sequence-parallel", NULL, &p->sequence_parallel,
                    "shard activations along the sequence between TP regions"),
        OPTION_CHOICE("recompute-granularity", NULL, &p->recompute, recomputes,
                      "activations to recompute in the backward pass; selective: norms and GELUs; "
                      "full: the full unit"),
        OPTION_FLAG("keep-recomputed", NULL, &p->keep_recomputed,
                    "full recomputation: keep recomputed values until the schedule computes "
                    "parameter gradients; takes memory"),
        OPTION_INT("loss-chunk", NULL, &p->loss_chunk, "N", 0, INT_MAX,
                   "rows of logits computed at a time; 0: from the vocabulary size and the device"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

/* How ranks run and communicate; continues the heading of parallel_rows. */
static size_t rank_rows(option *rows, trine_parallel *p, choices *c) {
    const option own[] = {
        OPTION_INT("ranks-per-node", NULL, &p->ranks_per_node, "N", 0, INT_MAX,
                   "ranks per node; 0: as detected by MPI"),
        OPTION_CHOICE(
            "transport", NULL, &p->transport, transports,
            "transport; mpi: messages; shm: shared memory of the node; nccl: NCCL, or refuse to "
            "run; auto: shm where two ranks share a node, nccl where each rank has a GPU"),
        OPTION_FLAG("ordered-reductions", NULL, &p->ordered_reductions,
                    "nccl: reduce in rank order, bitwise equal to the other transports"),
        OPTION_FLAG("stage-messages", NULL, &p->stage_messages,
                    "cuda: stage messages through host memory even if MPI is CUDA-aware"),
        OPTION_CHOICE("device", NULL, &c->device, devices, "compute device"),
        OPTION_STRING("cuda-library", NULL, &p->cuda_library, "FILE",
                      "cuda: path of libtrine_cuda.so; otherwise searched for beside the program"),
        OPTION_FLAG("tf32", NULL, &p->tf32,
                    "cuda: use TF32 for matrix products; faster, less accurate"),
        OPTION_INT("threads", NULL, &p->threads, "N", 0, 4096,
                   "threads per rank; 0: from the affinity mask and the ranks of the node"),
        OPTION_DOUBLE("timeout", NULL, &p->timeout, "SECONDS", 0, 1e9,
                      "abort the job when a rank has waited this long; 0: never"),
        OPTION_DOUBLE(
            "io-timeout", NULL, &p->io_timeout, "SECONDS", 0, 1e9,
            "abort the job when a single file system call, e.g. fsync, takes this long; 0: never"),
        OPTION_FLAG("audit", NULL, &p->audit,
                    "verify every collective across its group; compare hashes of replicas"),
        OPTION_FLAG("serial", NULL, &p->serial,
                    "complete each instruction before starting the next, for debugging"),
        OPTION_FLAG("one-queue", NULL, &p->one_queue,
                    "run the programs made for NCCL: one queue per device, messages in groups"),
    };
    return put_rows(rows, own, sizeof own / sizeof *own);
}

static size_t precision_rows(option *rows, trine_precision *p, choices *c) {
    const option own[] = {
        OPTION_HEADING("Precision"),
        OPTION_FLAG("bf16", NULL, &p->bf16, "bf16 weights and activations, fp32 master weights"),
        OPTION_FLAG("fp16", NULL, &p->fp16,
                    "fp16 weights and activations, fp32 master weights, loss scaling"),
        OPTION_CHOICE("grad-dtype", NULL, &c->grads, grad_dtypes,
                      "data type of weight gradients: fp32 or the 16-bit compute type"),
        OPTION_DOUBLE("loss-scale", NULL, &p->loss_scale, "X", 0, INFINITY,
                      "fp16: static loss scale; 0: dynamic"),
        OPTION_DOUBLE("initial-loss-scale", NULL, &p->initial_loss_scale, "X", 0, INFINITY,
                      "dynamic loss scale: initial value"),
        OPTION_DOUBLE("min-loss-scale", NULL, &p->min_loss_scale, "X", 0, INFINITY,
                      "dynamic loss scale: minimum; an overflow at the minimum aborts the job"),
        OPTION_INT("loss-scale-window", NULL, &p->loss_scale_window, "N", 1, INT_MAX,
                   "dynamic loss scale: consecutive steps without overflow before it is doubled"),
        OPTION_INT("hysteresis", NULL, &p->hysteresis, "N", 1, INT_MAX,
                   "dynamic loss scale: overflows before it is halved"),
    };
    return put_rows(rows, own, sizeof own / sizeof *own);
}

static size_t training_rows(option *rows, trine_config *config) {
    trine_optimizer *o = &config->optimizer;
    const option own[] = {
        OPTION_HEADING("Training"),
        OPTION_INT("micro-batch-size", NULL, &config->micro_batch_size, "N", 1, INT_MAX,
                   "samples per micro-batch and dp rank"),
        OPTION_INT("global-batch-size", NULL, &config->global_batch_size, "N", 0, INT_MAX,
                   "samples per step over all ranks; 0: --micro-batch-size x dp"),
        OPTION_INT("train-iters", NULL, &config->train_iters, "N", 0, INT_MAX,
                   "number of training steps"),
        OPTION_DOUBLE("lr", NULL, &o->lr, "X", 0, INFINITY, "learning rate after warm-up"),
        OPTION_DOUBLE("min-lr", NULL, &o->min_lr, "X", 0, INFINITY,
                      "minimum learning rate, reached at the end of the decay"),
        OPTION_INT("lr-warmup-iters", NULL, &o->lr_warmup_iters, "N", 0, INT_MAX,
                   "linear warm-up steps"),
        OPTION_INT("lr-decay-iters", NULL, &o->lr_decay_iters, "N", 0, INT_MAX,
                   "step at which the decay ends; 0: --train-iters"),
        OPTION_CHOICE("lr-decay-style", NULL, &o->lr_decay_style, decays,
                      "learning rate decay function"),
        OPTION_DOUBLE("weight-decay", NULL, &o->weight_decay, "X", 0, INFINITY,
                      "decoupled weight decay; not applied to biases, norms and positions"),
        OPTION_FLAG("decay-all", NULL, &o->decay_all, "apply weight decay to all parameters"),
        OPTION_DOUBLE("adam-beta1", NULL, &o->adam_beta1, "X", 0, 1,
                      "Adam decay rate of the first moment"),
        OPTION_DOUBLE("adam-beta2", NULL, &o->adam_beta2, "X", 0, 1,
                      "Adam decay rate of the second moment"),
        OPTION_DOUBLE("adam-eps", NULL, &o->adam_eps, "X", 0, INFINITY,
                      "Adam epsilon, added to the denominator"),
        OPTION_DOUBLE("clip-grad", NULL, &o->clip_grad, "X", 0, INFINITY,
                      "maximum global gradient norm; 0: no clipping"),
        OPTION_U64("seed", NULL, &config->data.seed, "N",
                   "random seed of initial parameters and sample order"),
    };
    return put_rows(rows, own, sizeof own / sizeof *own);
}

static size_t checkpoint_rows(option *rows, trine_checkpoint *c) {
    const option own[] = {
        OPTION_HEADING("Checkpoints"),
        OPTION_STRING(
            "save", NULL, &c->save, "DIR",
            "folder for checkpoints; saves at the end of the run, and on SIGINT (Ctrl-C), "
            "SIGTERM, SIGHUP or SIGUSR1 to any rank, with exit status 75"),
        OPTION_INT("save-interval", NULL, &c->save_interval, "N", 0, INT_MAX,
                   "steps between checkpoints; 0: only at the end"),
        OPTION_INT("keep", NULL, &c->keep, "N", 0, INT_MAX,
                   "number of newest checkpoints to keep; 0: all"),
        OPTION_STRING("load", NULL, &c->load, "PATH",
                      "checkpoint, folder of checkpoints or Hugging Face folder to load, saved "
                      "under any layout; auto: the newest checkpoint in --save, if any"),
        OPTION_FLAG("load-weights-only", "finetune", &c->load_weights_only,
                    "load only the weights; start at step 0 with a new optimizer"),
        OPTION_STRING("pretrained-checkpoint", NULL, &c->pretrained, "PATH",
                      "with --load auto: what to load the weights of, as with --finetune, where "
                      "--save has no checkpoint yet"),
        OPTION_DOUBLE("max-minutes", "exit-duration-in-mins", &c->max_minutes, "X", 0, INFINITY,
                      "save and exit with status 75 after this many minutes; 0: never"),
    };
    return put_rows(rows, own, sizeof own / sizeof *own);
}

static size_t run_rows(option *rows, trine_config *config, trine_run *r) {
    const option own[] = {
        OPTION_HEADING("Data and output"),
        OPTION_BLEND(
            "data-path", NULL, &config->data.data_path, r->data_words, "FILE",
            "training token files or glob patterns; a blend: weights with files behind each, as "
            "0.7 'a_*.bin' 0.3 b.bin"),
        OPTION_BLEND("val-data-path", NULL, &config->data.val_data_path, r->val_data_words, "FILE",
                     "the same for the validation"),
        OPTION_STRING("tokenizer", "tokenizer-model", &config->data.tokenizer, "PATH",
                      "tokenizer.json or its folder: must fit the vocabulary and the token files, "
                      "and is saved in checkpoints; otherwise that of --load, if it has one"),
        OPTION_INT("log-interval", NULL, &r->log_interval, "N", 0, INT_MAX,
                   "steps between log lines"),
        OPTION_INT("eval-interval", NULL, &r->eval_interval, "N", 0, INT_MAX,
                   "steps between validations; 0: only before the first and after the last step"),
        OPTION_INT("eval-iters", NULL, &config->eval_iters, "N", 1, INT_MAX,
                   "global batches per validation"),
        OPTION_STRING("log", NULL, &r->log, "FILE",
                      "write metrics as JSON lines; continued when --load resumes a run"),
        OPTION_DOUBLE("peak-tflops", NULL, &r->peak_tflops, "X", 0, INFINITY,
                      "peak TFLOP/s of one rank, to compute utilisation"),
        OPTION_FLAG("profile", NULL, &r->profile, "profile all steps except the first two"),
        OPTION_STRING(
            "profile-json", NULL, &r->profile_json, "FILE",
            "write the profile as one line of JSON, replacing the file; implies --profile"),
        OPTION_HEADING("Inspection without running"),
        OPTION_FLAG("dry-run", NULL, &r->dry_run,
                    "print memory, bubble and traffic, then exit; no mpirun needed"),
        OPTION_FLAG_OF(
            "explain", NULL, &r->explain, explanations, &r->explain_what,
            "print every stage's program, or the model's layers, then exit; no mpirun needed"),
        OPTION_INT("ranks", NULL, &r->ranks, "N", 0, INT_MAX,
                   "number of ranks assumed by --dry-run and --explain; 0: dp x tp x pp"),
        OPTION_STRING(
            "export-schedule", NULL, &r->export_schedule, "FILE",
            "write the schedule in the CSV of torch.distributed.pipelining, replacing the "
            "file; also with --dry-run and --explain"),
        OPTION_FLAG("help", "h", &r->help, "print this help and exit"),
    };
    return put_rows(rows, own, sizeof own / sizeof *own);
}

static options make_table(const char *program, option rows[CLI_ROWS], trine_config *config,
                          trine_run *run, choices *c) {
    size_t count = model_rows(rows, &config->model, c);
    count += parallel_rows(rows + count, &config->parallel, c);
    count += rank_rows(rows + count, &config->parallel, c);
    count += precision_rows(rows + count, &config->precision, c);
    count += training_rows(rows + count, config);
    count += checkpoint_rows(rows + count, &run->checkpoint);
    count += run_rows(rows + count, config, run);
    ASSERT(count <= CLI_ROWS);
    return (options){.program = program,
                     .usage = "[options]     (use mpirun for more than one rank)",
                     .about = "Train a GPT over data-, tensor- and pipeline-parallel ranks.",
                     .rows = rows,
                     .count = count};
}

#define VALIDATES "requires --val-data-path: without it nothing is validated"
#define DECAYS    "requires a --lr-decay-style that decays, cosine or linear"
#define SCALES    "requires --fp16 without --loss-scale: a dynamic loss scale"
#define REQUEST_RULE(i)                                                                            \
    { NULL, request_fault(c, i) != NULL, request_fault(c, i) }
_Static_assert(REQUEST_RULES == 3, "all are in check_rules");
#define ON_GPUS "requires --device cuda"

/* Refuses options without effect or with an unintended one. What depends on the number of ranks is no fault: --zero with dp 1
 * or --sequence-parallel with tp 1 stand in command lines for any layout. */
static trine_status check_rules(const options *o, const trine_config *config, const trine_run *r,
                                const choices *given) {
    const trine_checkpoint *c = &r->checkpoint;
    const trine_precision *p = &config->precision;
    const char *unread = gpt_unread(&config->model);
    bool validates = config->data.val_data_path,
         falls = config->optimizer.lr_decay_style != TRINE_DECAY_CONSTANT,
         scales = p->fp16 && p->loss_scale == 0, looks = r->dry_run || r->explain,
         gpus = given->device == DEVICE_CUDA, shards = config->parallel.zero >= TRINE_ZERO_2;
    const option_rule rules[] = {
        REQUEST_RULE(0),
        REQUEST_RULE(1),
        REQUEST_RULE(2),
        {"load-weights-only", !c->load, "--load-weights-only requires --load"},
        {"save-interval", c->save_interval && !c->save, "--save-interval requires --save"},
        {"keep", c->keep && !c->save, "--keep requires --save"},
        {"max-minutes", c->max_minutes > 0 && !c->save,
         "--max-minutes requires --save; the run would be lost"},
        {NULL, unread != NULL, unread},
        {"eval-interval", r->eval_interval && !validates, "--eval-interval " VALIDATES},
        {"eval-iters", !validates, "--eval-iters " VALIDATES},
        {"min-lr", config->optimizer.min_lr > 0 && !falls, "--min-lr " DECAYS},
        {"lr-decay-iters", config->optimizer.lr_decay_iters && !falls, "--lr-decay-iters " DECAYS},
        {"loss-scale", p->loss_scale > 0 && !p->fp16, "--loss-scale requires --fp16"},
        {"initial-loss-scale", !scales, "--initial-loss-scale " SCALES},
        {"min-loss-scale", !scales, "--min-loss-scale " SCALES},
        {"loss-scale-window", !scales, "--loss-scale-window " SCALES},
        {"hysteresis", !scales, "--hysteresis " SCALES},
        {"gather-buffers", config->parallel.zero != TRINE_ZERO_3,
         "--gather-buffers requires --zero 3"},
        {"reduce-buffers", !shards, "--reduce-buffers requires --zero 2 or 3"},
        {"ordered-reductions", !gpus, "--ordered-reductions " ON_GPUS},
        {"stage-messages", !gpus, "--stage-messages " ON_GPUS},
        {"cuda-library", !gpus, "--cuda-library " ON_GPUS},
        {"tf32", !gpus, "--tf32 " ON_GPUS},
        {"ranks", r->ranks && !looks,
         "--ranks requires --dry-run or --explain; mpirun -np gives a run its ranks"},
    };
    return options_check_rules(o, rules, sizeof rules / sizeof *rules);
}

static trine_run default_run(void) {
    return (trine_run){.log_interval = 1};
}

/* What is not a name of the list is a file. */
static void choose_schedule(const choices *c, trine_parallel *p) {
    int s = 0;
    while (schedules[s] && strcmp(c->schedule, schedules[s])) s++;
    if (schedules[s])
        p->schedule = (trine_schedule)s;
    else
        p->schedule_file = c->schedule;
}

/* Without a preset, what is loaded says what the model is. A file that cannot be opened is reported when it is loaded, by
 * all ranks together; where nothing will be loaded, here. */
static trine_status model_of_load(trine_model *m, const trine_run *run) {
    bool looks = run->dry_run || run->explain;
    trine_status status = trine_checkpoint_model(&run->checkpoint, m);
    if (status != TRINE_EIO || looks) return status;
    status_clear();
    return TRINE_OK;
}

/* Parses twice: the first pass finds the preset or what is loaded, whose sizes the other options override in the
 * second. */
static trine_status parse(int argc, char **argv, trine_config *config, trine_run *run) {
    option rows[CLI_ROWS];
    choices c = default_choices();
    bool given[CLI_ROWS] = {false};
    options table = make_table(argv[0], rows, config, run, &c);
    table.given = given;
    *config = trine_config_default();
    *run = default_run();
    TRY(options_parse(&table, argc, argv));
    *config = trine_config_default();
    if (c.model)
        TRY(trine_model_preset(&config->model, models[c.model]));
    else
        TRY(model_of_load(&config->model, run));
    *run = default_run();
    TRY(options_parse(&table, argc, argv));
    if (c.family) TRY(family_find(&config->model.family, c.family));
    choose_schedule(&c, &config->parallel);
    config->parallel.device = devices[c.device];
    config->precision.grads = grad_types[c.grads];
    run->profile |= run->profile_json != NULL;
    return check_rules(&table, config, run, &c);
}

trine_status trine_parse(int argc, char **argv, trine_config *config, trine_run *run) {
    CHECK_GIVEN(argv, "argv");
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(run, "run");
    return status_user(parse(argc, argv, config, run));
}

trine_status trine_usage(const char *program, FILE *out) {
    CHECK_GIVEN(program, "program");
    CHECK_GIVEN(out, "out");
    option rows[CLI_ROWS];
    trine_config config = trine_config_default();
    trine_run run = default_run();
    choices c = default_choices();
    options table = make_table(program, rows, &config, &run, &c);
    options_help(out, &table);
    return status_user(output_flushed(out));
}
