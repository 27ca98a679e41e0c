#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "device/device.h"

/* The command line of the example trainers: one table. */

static const char *const models[] = {"custom",     "gpt2",    "gpt2-medium",
                                     "gpt2-large", "gpt2-xl", NULL};
/* Behind --explain; trine_run. */
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

/* Types of gradients, and what they are in the struct. */
static const char *const grad_dtypes[] = {"fp32", "bf16", "fp16", NULL};
static const trine_dtype grad_types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};

/* What the rows fill beside the caller's structs. */
typedef struct {
    int model, device, grads; /* indices of names */
} choices;

#define CLI_ROWS 96

static size_t model_rows(option *rows, trine_model *m, choices *c) {
    const option own[] = {
        OPTION_HEADING("Model"),
        OPTION_CHOICE("model", NULL, &c->model, models,
                      "a GPT-2's sizes, which the options below change; custom: gpt2 with "
                      "the token file's vocabulary"),
        OPTION_INT("num-layers", NULL, &m->num_layers, "N", 1, 32000, "transformer blocks"),
        OPTION_INT("hidden-size", NULL, &m->hidden_size, "N", 1, INT_MAX,
                   "width of the residual stream"),
        OPTION_INT("num-attention-heads", NULL, &m->num_attention_heads, "N", 1, INT_MAX,
                   "heads; a multiple of --tp"),
        OPTION_INT("ffn-hidden-size", NULL, &m->ffn_hidden_size, "N", 0, INT_MAX,
                   "width of the MLP; 0: 4 x hidden size"),
        OPTION_INT("seq-length", NULL, &m->seq_length, "N", 1, INT_MAX, "tokens a sample"),
        OPTION_INT("vocab-size", NULL, &m->vocab_size, "N", 0, INT_MAX,
                   "tokens in the vocabulary; 0: the token file's"),
        OPTION_FLAG("untied", "untie-embeddings-and-output-weights", &m->untied,
                    "give the output head a matrix of its own"),
        OPTION_DOUBLE("hidden-dropout", NULL, &m->hidden_dropout, "P", 0, 1,
                      "dropout of the embeddings and of what joins the residual stream"),
        OPTION_DOUBLE("attention-dropout", NULL, &m->attention_dropout, "P", 0, 1,
                      "dropout of attention's probabilities"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
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
                          "what dp ranks share: 1 optimizer, 2 + gradients, 3 + parameters"),
        OPTION_CHOICE("schedule", NULL, &p->schedule, schedules, "order of the pipeline"),
        OPTION_FLAG(
            "split-backward", NULL, &p->split_backward,
            "send the gradient of a block's input before its parameters' gradients are made"),
        OPTION_STRING("pp-split", NULL, &p->pp_split, "LIST",
                      "layers of each stage by hand, e.g. e,5,5,h"),
        OPTION_INT("gather-buffers", NULL, &p->gather_buffers, "N", 1, 30000,
                   "ZeRO-3: buffers for gathered parameters, per class of units"),
        OPTION_FLAG("sequence-parallel", NULL, &p->sequence_parallel,
                    "between its sums each tp rank has its share of the rows only"),
        OPTION_CHOICE("recompute-granularity", NULL, &p->recompute, recomputes,
                      "what backward makes again: nothing; norms and GELUs; the whole unit"),
        OPTION_INT("loss-chunk", NULL, &p->loss_chunk, "N", 0, INT_MAX,
                   "rows whose logits exist at a time; 0: as many as take some tens of MiB"),
        OPTION_INT("ranks-per-node", NULL, &p->ranks_per_node, "N", 0, INT_MAX,
                   "what a node is; 0: as MPI finds it"),
        OPTION_CHOICE("transport", NULL, &p->transport, transports,
                      "how ranks of a node exchange: shm reads the peer's memory, mpi sends; auto: "
                      "shm where two ranks share a node, nccl where each has a GPU; nccl: that or "
                      "nothing"),
        OPTION_FLAG("ordered-reductions", NULL, &p->ordered_reductions,
                    "nccl: add in rank order, for the bits of the other transports"),
        OPTION_FLAG("stage-messages", NULL, &p->stage_messages,
                    "cuda: send through host memory, though MPI be CUDA-aware"),
        OPTION_CHOICE("device", NULL, &c->device, devices, "what computes"),
        OPTION_STRING("cuda-library", NULL, &p->cuda_library, "FILE",
                      "the cuda device's shared object; else looked for beside the program"),
        OPTION_FLAG("tf32", NULL, &p->tf32,
                    "cuda: round the factors of matrix products to TF32; faster, less exact"),
        OPTION_INT("threads", NULL, &p->threads, "N", 0, 4096,
                   "threads a rank; 0: from the affinity mask and the ranks of the node"),
        OPTION_DOUBLE("timeout", NULL, &p->timeout, "SECONDS", 0, 1e9,
                      "end the job when a rank has waited that long; 0: never"),
        OPTION_DOUBLE(
            "io-timeout", NULL, &p->io_timeout, "SECONDS", 0, 1e9,
            "end the job when one call of the file system, an fsync, has taken that long; "
            "0: never"),
        OPTION_FLAG("audit", NULL, &p->audit,
                    "compare every collective over its group; hash replicas"),
        OPTION_FLAG("serial", NULL, &p->serial,
                    "finish each instruction before the next (bisecting)"),
        OPTION_FLAG("one-queue", NULL, &p->one_queue,
                    "run the programs that NCCL gets: one queue a device, messages in groups"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

static size_t precision_rows(option *rows, trine_precision *p, choices *c) {
    const option own[] = {
        OPTION_HEADING("Precision"),
        OPTION_FLAG("bf16", NULL, &p->bf16, "weights and activations in bf16, master in fp32"),
        OPTION_FLAG("fp16", NULL, &p->fp16, "the same in fp16, with a loss scale"),
        OPTION_CHOICE("grad-dtype", NULL, &c->grads, grad_dtypes,
                      "weight gradients: fp32, or the 16-bit type in use"),
        OPTION_DOUBLE("loss-scale", NULL, &p->loss_scale, "X", 0, INFINITY,
                      "fp16: fixed at this; 0: dynamic"),
        OPTION_DOUBLE("initial-loss-scale", NULL, &p->initial_loss_scale, "X", 0, INFINITY,
                      "dynamic: what it begins with"),
        OPTION_DOUBLE("min-loss-scale", NULL, &p->min_loss_scale, "X", 0, INFINITY,
                      "dynamic: an overflow at this ends the job"),
        OPTION_INT("loss-scale-window", NULL, &p->loss_scale_window, "N", 1, INT_MAX,
                   "dynamic: steps in a row without overflow that double it"),
        OPTION_INT("hysteresis", NULL, &p->hysteresis, "N", 1, INT_MAX,
                   "dynamic: overflows until it is halved"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

static size_t training_rows(option *rows, trine_config *config) {
    trine_optimizer *o = &config->optimizer;
    const option own[] = {
        OPTION_HEADING("Training"),
        OPTION_INT("micro-batch-size", NULL, &config->micro_batch_size, "N", 1, INT_MAX,
                   "samples per forward pass and rank"),
        OPTION_INT("global-batch-size", NULL, &config->global_batch_size, "N", 0, INT_MAX,
                   "samples a step over all ranks; 0: micro-batch x dp"),
        OPTION_INT("train-iters", NULL, &config->train_iters, "N", 0, INT_MAX, "steps"),
        OPTION_DOUBLE("lr", NULL, &o->lr, "X", 0, INFINITY, "learning rate after warm-up"),
        OPTION_DOUBLE("min-lr", NULL, &o->min_lr, "X", 0, INFINITY, "learning rate after decay"),
        OPTION_INT("lr-warmup-iters", NULL, &o->lr_warmup_iters, "N", 0, INT_MAX,
                   "steps of linear warm-up"),
        OPTION_INT("lr-decay-iters", NULL, &o->lr_decay_iters, "N", 0, INT_MAX,
                   "step at which decay ends; 0: --train-iters"),
        OPTION_CHOICE("lr-decay-style", NULL, &o->lr_decay_style, decays, "form of the decay"),
        OPTION_DOUBLE("weight-decay", NULL, &o->weight_decay, "X", 0, INFINITY,
                      "decoupled; not on biases, norms and positions"),
        OPTION_FLAG("decay-all", NULL, &o->decay_all, "weight decay on everything"),
        OPTION_DOUBLE("adam-beta1", NULL, &o->adam_beta1, "X", 0, 1, "first moment's decay"),
        OPTION_DOUBLE("adam-beta2", NULL, &o->adam_beta2, "X", 0, 1, "second moment's decay"),
        OPTION_DOUBLE("adam-eps", NULL, &o->adam_eps, "X", 0, INFINITY, "added to the denominator"),
        OPTION_DOUBLE("clip-grad", NULL, &o->clip_grad, "X", 0, INFINITY,
                      "largest global gradient norm; 0: no clipping"),
        OPTION_U64("seed", NULL, &config->data.seed, "N", "of initial values and sample order"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

static size_t checkpoint_rows(option *rows, trine_checkpoint *c) {
    const option own[] = {
        OPTION_HEADING("Checkpoints"),
        OPTION_STRING("save", NULL, &c->save, "DIR",
                      "save here when the run ends, also by SIGTERM or SIGUSR1 to a rank: then the "
                      "exit status is 75"),
        OPTION_INT("save-interval", NULL, &c->save_interval, "N", 0, INT_MAX,
                   "and every N steps; 0: not before the end"),
        OPTION_INT("keep", NULL, &c->keep, "N", 0, INT_MAX, "the newest N stay; 0: all"),
        OPTION_STRING("load", NULL, &c->load, "PATH",
                      "begin with this checkpoint, folder of them or Hugging Face folder, of any "
                      "layout; auto: the newest of --save, if it has one"),
        OPTION_FLAG("load-weights-only", "finetune", &c->load_weights_only,
                    "from step 0, with a new optimizer"),
        OPTION_DOUBLE("max-minutes", "exit-duration-in-mins", &c->max_minutes, "X", 0, INFINITY,
                      "save and end after that long, with status 75; 0: never"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

static size_t run_rows(option *rows, trine_config *config, trine_run *r) {
    const option own[] = {
        OPTION_HEADING("Data and output"),
        OPTION_STRING("data-path", NULL, &config->data.data_path, "FILE", "token file or glob"),
        OPTION_STRING("val-data-path", NULL, &config->data.val_data_path, "FILE",
                      "token file or glob for validation"),
        OPTION_INT("log-interval", NULL, &r->log_interval, "N", 0, INT_MAX, "steps between lines"),
        OPTION_INT("eval-interval", NULL, &r->eval_interval, "N", 0, INT_MAX,
                   "steps between validations; 0: before the first and after the last"),
        OPTION_INT("eval-iters", NULL, &config->eval_iters, "N", 1, INT_MAX,
                   "global batches a validation"),
        OPTION_STRING("log", NULL, &r->log, "FILE",
                      "metrics as JSON lines; continued where --load goes on with a run"),
        OPTION_DOUBLE("peak-tflops", NULL, &r->peak_tflops, "X", 0, INFINITY,
                      "of one rank, for the utilisation"),
        OPTION_FLAG("profile", NULL, &r->profile,
                    "print where the steps' time went, all but the first two steps'"),
        OPTION_STRING("profile-json", NULL, &r->profile_json, "FILE",
                      "the profile as a line of JSON; begun anew; sets --profile"),
        OPTION_HEADING("Looking without running"),
        OPTION_FLAG("dry-run", NULL, &r->dry_run,
                    "print bytes, bubble and traffic; needs no mpirun"),
        OPTION_FLAG_OF("explain", NULL, &r->explain, explanations, &r->explain_what,
                       "print every stage's program, or the model's layers; needs no mpirun"),
        OPTION_INT("ranks", NULL, &r->ranks, "N", 0, INT_MAX,
                   "for these two: ranks of the job; 0: dp x tp x pp"),
        OPTION_FLAG("help", "h", &r->help, "print this"),
    };
    memcpy(rows, own, sizeof own);
    return sizeof own / sizeof *own;
}

static options make_table(const char *program, option rows[CLI_ROWS], trine_config *config,
                          trine_run *run, choices *c) {
    size_t count = model_rows(rows, &config->model, c);
    count += parallel_rows(rows + count, &config->parallel, c);
    count += precision_rows(rows + count, &config->precision, c);
    count += training_rows(rows + count, config);
    count += checkpoint_rows(rows + count, &run->checkpoint);
    count += run_rows(rows + count, config, run);
    ASSERT(count <= CLI_ROWS);
    return (options){.program = program,
                     .usage = "[options]     (under mpirun for more than one rank)",
                     .about = "Trains a GPT over data, tensor and pipeline parallel ranks.",
                     .rows = rows,
                     .count = count};
}

/* What would do nothing, or something else than was meant. All such mistakes in one message. */
static trine_status check_checkpoint(const trine_checkpoint *c) {
    bool automatic = c->load && strcmp(c->load, "auto") == 0;
    const struct {
        bool wrong;
        const char *text;
    } rules[] = {
        {automatic && !c->save, "--load auto is the newest checkpoint of --save, which is missing"},
        {automatic && c->load_weights_only,
         "--load auto goes on with a run, --load-weights-only begins one: name the checkpoint"},
        {c->load_weights_only && !c->load, "--load-weights-only is for --load"},
        {c->save_interval && !c->save, "--save-interval is for --save"},
        {c->keep && !c->save, "--keep is for --save"},
        {c->max_minutes > 0 && !c->save, "--max-minutes without --save would lose the run"},
    };
    char text[600] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].wrong)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? "\n  - " : "",
                                     rules[i].text);
    CHECK(!used, TRINE_EINVAL, "%s", text);
    return TRINE_OK;
}

static trine_run default_run(void) {
    return (trine_run){.log_interval = 1};
}

/* Twice: the first time finds the model, whose sizes the other options then change. */
static trine_status parse(int argc, char **argv, trine_config *config, trine_run *run) {
    option rows[CLI_ROWS];
    choices c = {0};
    options table = make_table(argv[0], rows, config, run, &c);
    *config = trine_config_default();
    *run = default_run();
    TRY(options_parse(&table, argc, argv));
    *config = trine_config_default();
    *run = default_run();
    if (c.model) TRY(trine_model_preset(&config->model, models[c.model]));
    TRY(options_parse(&table, argc, argv));
    config->parallel.device = devices[c.device];
    config->precision.grads = grad_types[c.grads];
    run->profile |= run->profile_json != NULL;
    return check_checkpoint(&run->checkpoint);
}

trine_status trine_parse(int argc, char **argv, trine_config *config, trine_run *run) {
    return status_user(parse(argc, argv, config, run));
}

trine_status trine_usage(const char *program, FILE *out) {
    option rows[CLI_ROWS];
    trine_config config = trine_config_default();
    trine_run run = default_run();
    choices c = {0};
    options table = make_table(program, rows, &config, &run, &c);
    options_help(out, &table);
    return status_user(output_flushed(out));
}
