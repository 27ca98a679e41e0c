#include <string.h>
#include <unistd.h>

#include "base/options_twice.h"
#include "base/output.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "config/config.h"
#include "cost/hardware.h"
#include "model/shape.h"
#include "train/idle.h"
#include "train/load_request.h"
#include "train/plan_auto.h"

/* The command line of the example trainers. */

/* The file that the name of a machine stands for. */
static void add_hardware(const options *o, paths_apart *p) {
    const trine_run *run = o->at[CONFIG_RUN];
    char path[HARDWARE_PATH] = "";
    if (run->hardware) hardware_file(run->hardware, path);
    paths_apart_add(p, "--hardware", path, OPTION_PATH_INPUT);
}

static options make_table(const char *program, const trine_config *config, const trine_run *run) {
    options o = config_options(config, run, &run->checkpoint);
    o.program = program;
    o.paths = add_hardware;
    o.usage = "[options]     (use mpirun for more than one rank)";
    o.about = "Train a GPT over data-, tensor- and pipeline-parallel ranks.";
    return o;
}

#define VALIDATES "requires --val-data-path: without it nothing is validated"
#define DECAYS    "requires a --lr-decay-style that decays, cosine, linear or wsd"
#define WSD       "requires --lr-decay-style wsd"
#define SCALES    "requires --fp16 without --loss-scale: a dynamic loss scale"
#define REQUEST_RULE(i)                                                                            \
    { NULL, request_fault(c, i) != NULL, request_fault(c, i) }
_Static_assert(REQUEST_RULES == 5, "all are in check_rules");
#define ON_GPUS "requires --device cuda"

/* Refuses options without effect or with an unintended one. What depends on the number of ranks is no fault: --zero with dp 1
 * or --sequence-parallel with tp 1 stand in command lines for any layout. */
static trine_status check_rules(const options *o, const trine_config *config, const trine_run *r) {
    const trine_checkpoint *c = &r->checkpoint;
    const trine_precision *p = &config->precision;
    const char *unread = gpt_unread(&config->model);
    bool validates = config->data.val_data_path,
         falls = config->optimizer.lr_decay_style != TRINE_DECAY_CONSTANT,
         wsd = config->optimizer.lr_decay_style == TRINE_DECAY_WSD,
         scales = p->fp16 && p->loss_scale == 0, looks = r->dry_run || r->explain || r->layouts,
         gpus = !strcmp(config->parallel.device, "cuda"),
         shards = config->parallel.zero >= TRINE_ZERO_2;
    const option_rule rules[] = {
        REQUEST_RULE(0),
        REQUEST_RULE(1),
        REQUEST_RULE(2),
        REQUEST_RULE(3),
        REQUEST_RULE(4),
        {"load-weights-only", !c->load, "--load-weights-only requires --load"},
        {"save-interval", c->save_interval && !c->save, "--save-interval requires --save"},
        {"save-at-tokens", !c->save, "--save-at-tokens requires --save"},
        {"keep", c->keep && !c->save, "--keep requires --save"},
        {"max-minutes", c->max_minutes > 0 && !c->save,
         "--max-minutes requires --save; the run would be lost"},
        {NULL, unread != NULL, unread},
        {"eval-interval", r->eval_interval && !validates, "--eval-interval " VALIDATES},
        {"eval-iters", !validates, "--eval-iters " VALIDATES},
        {"min-lr", config->optimizer.min_lr > 0 && !falls, "--min-lr " DECAYS},
        {"lr-decay-iters", config->optimizer.lr_decay_iters && !falls, "--lr-decay-iters " DECAYS},
        {"lr-wsd-decay-iters", config->optimizer.lr_wsd_decay_iters && !wsd,
         "--lr-wsd-decay-iters " WSD},
        {"lr-wsd-decay-style", !wsd, "--lr-wsd-decay-style " WSD},
        {"loss-scale", p->loss_scale > 0 && !p->fp16, "--loss-scale requires --fp16"},
        {"initial-loss-scale", !scales, "--initial-loss-scale " SCALES},
        {"min-loss-scale", !scales, "--min-loss-scale " SCALES},
        {"loss-scale-window", !scales, "--loss-scale-window " SCALES},
        {"hysteresis", !scales, "--hysteresis " SCALES},
        {"gather-buffers", config->parallel.zero != TRINE_ZERO_3,
         "--gather-buffers requires --zero 3"},
        {"reduce-buffers", !shards, "--reduce-buffers requires --zero 2 or 3"},
        {"ordered-reductions", !gpus, "--ordered-reductions " ON_GPUS},
        {"nccl-lane-ctas", !gpus, "--nccl-lane-ctas " ON_GPUS},
        {"stage-messages", !gpus, "--stage-messages " ON_GPUS},
        {"cuda-library", !gpus, "--cuda-library " ON_GPUS},
        {"tf32", !gpus, "--tf32 " ON_GPUS},
        {"trace-steps", !config->trace.file, "--trace-steps requires --trace"},
        {"exact-dp", !config->parallel.exact, "--exact-dp requires --exact"},
        {"exact-tp", !config->parallel.exact, "--exact-tp requires --exact"},
        {"hardware", !r->plan, "--hardware requires --plan auto"},
        {"plan", !r->hardware,
         "--plan auto requires --hardware: the machine to plan for, a file that trine-doctor "
         "--write-hardware has measured, or one of hardware/, such as h100"},
        {"plan", !config->global_batch_size,
         "--plan auto requires --global-batch-size: the micro-batch is searched"},
        {"plan", r->layouts, "--plan and --layouts exclude each other"},
        {"plan", (r->dry_run || r->explain) && !r->ranks,
         "--plan auto with --dry-run or --explain requires --ranks"},
        {"ranks", r->ranks && !looks,
         "--ranks requires --dry-run, --explain or --layouts; mpirun -np gives a run its ranks"},
    };
    return options_check_rules(o, rules, sizeof rules / sizeof *rules);
}

static trine_status check_epochs(const options *o, const trine_config *config) {
    const bool twice = config->epochs > 0 && options_is_asked(o, "train-iters");
    CHECK(!twice, TRINE_EINVAL,
          "--epochs %g: --train-iters %d is given as well; leave one of them out", config->epochs,
          config->train_iters);
    return TRINE_OK;
}

/* Without a preset, what is loaded says what the model is. A file that cannot be opened is reported when it is loaded, by
 * all ranks together; where nothing will be loaded, here. */
static trine_status model_of_load(trine_model *m, const trine_run *run) {
    bool looks = run->dry_run || run->explain || run->layouts;
    if (looks) TRY(request_is_there(&run->checkpoint));
    trine_status status = trine_checkpoint_model(&run->checkpoint, m);
    if (status != TRINE_EIO || looks) return status;
    status_clear();
    return TRINE_OK;
}

/* Without --val-data-path: the file that trine-tokens has written beside the training's, if it is there. */
static void find_validation(trine_config *config, trine_run *run) {
    static const char ours[] = "_train.bin", other[] = "_val.bin";
    trine_data *d = &config->data;
    if (d->val_data_path) {
        if (!strcmp(d->val_data_path, CONFIG_NO_FILE)) d->val_data_path = NULL;
        return;
    }
    size_t length = d->data_path ? strlen(d->data_path) : 0, end = strlen(ours);
    if (length < end || strcmp(d->data_path + length - end, ours) != 0) return;
    if (length >= sizeof run->val_data_words) return;
    snprintf(run->val_data_words, sizeof run->val_data_words, "%.*s%s", (int)(length - end),
             d->data_path, other);
    run->val_beside = access(run->val_data_words, F_OK) == 0;
    if (run->val_beside) d->val_data_path = run->val_data_words;
}

/* What --plan must not search. */
static unsigned kept_by_plan(const options *o) {
    unsigned keeps = 0;
    for (size_t i = 0; i < o->count; i++)
        if (o->given[i]) keeps |= plan_auto_keeps(o->rows[i].name);
    return keeps;
}

/* Parses twice: the first pass finds the preset or what is loaded, whose sizes the other options override in the
 * second. Before anything is loaded it refuses outputs that are inputs, the validation that nobody named too. */
static trine_status parse(int argc, char **argv, trine_config *config, trine_run *run) {
    options table = make_table(argv[0], config, run);
    bool given[CONFIG_MOST_ROWS] = {false}, asked[CONFIG_MOST_ROWS] = {false};
    char warnings[OPTIONS_WARNINGS];
    ASSERT(table.count <= CONFIG_MOST_ROWS);
    table.given = given, table.asked = asked, table.warnings = warnings;
    *config = (trine_config){.model = {.family = NULL}};
    *run = (trine_run){.model = NULL};
    options_defaults(&table);
    TRY(options_parse(&table, argc, argv));
    find_validation(config, run);
    if (!run->help) TRY(paths_apart_of(&table));
    trine_model model = trine_config_default().model;
    if (strcmp(run->model, "custom") != 0)
        TRY(trine_model_preset(&model, run->model));
    else
        TRY(model_of_load(&model, run));
    options_defaults(&table);
    config->model = model;
    TRY(options_parse(&table, argc, argv));
    find_validation(config, run);
    run->profile |= run->profile_json != NULL;
    run->plan_keeps = kept_by_plan(&table);
    options_twice_print(warnings);
    TRY(check_epochs(&table, config));
    TRY(check_rules(&table, config, run));
    return idle_check(&table, &config->model, run->checkpoint.save);
}

trine_status trine_parse(int argc, char **argv, trine_config *config, trine_run *run) {
    CHECK_GIVEN(argv, "argv");
    CHECK_GIVEN(config, "config");
    CHECK_GIVEN(run, "run");
    TRY(options_check_argv(__func__, argc, argv, 1));
    output_limits_are_errors();
    return status_user(parse(argc, argv, config, run));
}

trine_status trine_usage(const char *program, FILE *out) {
    CHECK_GIVEN(program, "program");
    CHECK_GIVEN(out, "out");
    trine_config config = trine_config_default();
    trine_run run = {.model = NULL};
    options table = make_table(program, &config, &run);
    options_defaults(&table);
    options_help(out, &table);
    return status_user(output_flushed(out));
}
