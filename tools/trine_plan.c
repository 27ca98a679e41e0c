/* trine-plan: how long a training step takes on a machine that need not be here, and which layout is the fastest.
 *
 *     trine-plan --hardware h100 --ranks 128 --model llama3.1-70b --vocab-size 128256 --global-batch-size 1024 --bf16
 *     trine-plan --hardware a100-selene --implementation megatron-2021 --csv published.csv
 *     trine-plan --hardware h100 --calibrate run.jsonl --out ours.json
 *
 * The first searches all layouts. A row of the table of the second is a model with its layout, whose empty fields are
 * searched; the same columns are printed again, with `predicted_seconds` behind them. The third scales a machine to one
 * measured run. docs/planning.md says how it counts, and how well. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/options.h"
#include "base/output.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "config/config.h"
#include "plan/calibrate.h"
#include "plan/csv_rows.h"
#include "plan/plan_launch.h"
#include "plan/plan_print.h"
#include "train/load_request.h"
#include "train/plan_auto.h"
#include "trine_checkpoint.h"

#define WORD(id, text, ...) text,
static const char *const implementations[] = {IMPLEMENTATION_LIST(WORD)};
static const char *const parts[] = {COST_PART_LIST(WORD)};
static const char *const recomputes[] = {TRINE_RECOMPUTE_LIST(WORD)};
#undef WORD
static const char *const zeros[] = {"0", "1", "2", "3"};

#define SEARCH_RANKS (1 << 20)

typedef struct {
    const char *hardware, *csv, *calibrate, *out;
    implementation_kind implementation;
    trine_recompute recompute;
    trine_zero zero;
    option_list without;
    int vocab, ranks;
    double tokens;
    bool sequence, where, range, help;
    unsigned given; /* of row_defaults */
} settings;

/* A number of tokens: 140e9, 140G, 1T, in powers of 1000. */
static trine_status read_tokens(void *to, const char *text) {
    static const char units[] = "KMGT";
    char *end;
    double tokens = c_strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (int n = 0; unit && n <= unit - units; n++) tokens *= 1000;
    if (unit) end++;
    CHECK(*text >= '0' && *text <= '9' && !*end && tokens <= 1e18, TRINE_EINVAL,
          "\"%.40s\" is not a number of tokens up to 1e18: 140e9, 140G (K, M, G and T: powers of "
          "1000)",
          text);
    *(double *)to = tokens;
    return TRINE_OK;
}

static const char *print_tokens(const void *at, char text[OPTION_TEXT]) {
    c_snprintf(text, OPTION_TEXT, "%.9g", *(const double *)at);
    return text;
}

static const option_type tokens_type = {read_tokens, print_tokens};

static const option rows[] = {
    {OPTION_HEADING("What is planned")},
    {OPTION_READS, OPTION_STRING("hardware", settings, hardware, "NAME", NULL,
                                 "the machine: a100-selene, a100-vtrain, h100, zen5-cores, or the "
                                 "path of a file; its device "
                                 "is the default of --device")},
    {OPTION_INT("ranks", settings, ranks, "N", 0, SEARCH_RANKS, 0,
                "find the fastest layouts of N ranks; the trainer's options (train_gpt --help) "
                "give the model and the batch; options of the layout that are given are kept, the "
                "others are searched")},
    {OPTION_TYPE("tokens", settings, tokens, &tokens_type, "T",
                 "also print how long training on T tokens takes: 140e9, 140G, 1T (K, M, G and T: "
                 "powers of 1000)")},
    {OPTION_READS,
     OPTION_STRING("csv", settings, csv, "FILE", NULL,
                   "predict each row of a table: columns heads, hidden, layers, seq, tp, pp, dp, "
                   "batch and mbs, or vTrain's names for them; vocab, kv_heads, ffn, family, v, "
                   "gpus, schedule, recompute, sp and zero where it has them; an empty tp, pp, v, "
                   "dp, mbs, schedule, recompute, sp or zero is searched and filled in")},
    {OPTION_CHOICE("implementation", settings, implementation, implementations,
                   IMPLEMENTATION_TRINE, "what runs the step")},
    {OPTION_READS,
     OPTION_STRING("calibrate", settings, calibrate, "LOG", NULL,
                   "scale the machine to one run, measured by its log (train_gpt --log): its "
                   "median step is then predicted")},
    {OPTION_WRITES, OPTION_STRING("out", settings, out, "FILE", NULL,
                                  "write the machine that --calibrate has scaled, for --hardware")},
    {OPTION_HEADING("Rows that do not say")},
    {OPTION_CHOICE("recompute", settings, recompute, recomputes, TRINE_RECOMPUTE_NONE,
                   "recomputation of rows without it; if this is given, also of rows in which it "
                   "is empty")},
    {OPTION_CHOICE("zero", settings, zero, zeros, 0, "the same of the ZeRO stage")},
    {OPTION_FLAG("sequence-parallel", settings, sequence,
                 "the same of sequence parallelism, where tp is more than 1")},
    {OPTION_INT("vocab-size", settings, vocab, "N", 1, INT_MAX, 50257,
                "vocabulary of rows without it")},
    {OPTION_HEADING("What is printed")},
    {OPTION_FLAG("where", settings, where,
                 "also print the seconds of each part, of the busiest stage")},
    {OPTION_FLAG("range", settings, range,
                 "also print between which seconds a step of a row may take")},
    {OPTION_PLAIN,
     OPTION_LIST("without", settings, without, "PART",
                 "leave a part of the forecast out: memory-bound, tp, gradient-adds, bubble, dp, "
                 "tiles, messages, head, update, host; may be given several times")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};
#define ROWS (sizeof rows / sizeof *rows)

static void add_hardware(const options *o, paths_apart *p) {
    const settings *s = o->at[0];
    char path[HARDWARE_PATH] = "";
    if (s->hardware) hardware_file(s->hardware, path);
    paths_apart_add(p, "--hardware", path, OPTION_PATH_INPUT);
}

static bool row_given(const bool given[ROWS], const char *name) {
    for (size_t n = 0; n < ROWS; n++)
        if (rows[n].name && !strcmp(rows[n].name, name)) return given[n];
    return false;
}

static trine_status parse(settings *s, int argc, char **argv) {
    bool given[ROWS] = {false};
    const options o = {
        .program = "trine-plan",
        .about =
            "Predict how long training steps take on a machine, from their programs and a "
            "file that describes the machine. Exit status 1: a row is refused; the others have "
            "their times.",
        .rows = rows,
        .count = ROWS,
        .at = {s},
        .given = given,
        .paths = add_hardware};
    TRY(options_read(&o, argc, argv));
    if (s->help) return TRINE_OK;
    if (row_given(given, "recompute")) s->given |= 1u << SEARCH_RECOMPUTE;
    if (row_given(given, "zero")) s->given |= 1u << SEARCH_ZERO;
    if (s->sequence) s->given |= 1u << SEARCH_SEQUENCE;
    CHECK(s->hardware, TRINE_EINVAL, "--hardware is missing (see --help)");
    CHECK(s->csv || s->ranks || s->calibrate, TRINE_EINVAL,
          "--csv, --ranks or --calibrate is missing (see --help)");
    const bool predicts = s->csv || s->ranks;
    const option_rule rules[] = {
        {"csv", s->ranks > 0, "--csv and --ranks exclude each other"},
        {"implementation", !predicts, "--implementation requires --csv or --ranks"},
        {"without", !predicts, "--without requires --csv or --ranks"},
        {"recompute", !s->csv, "--recompute requires --csv, or --ranks with the model's options"},
        {"zero", !s->csv, "--zero requires --csv, or --ranks with the model's options"},
        {"sequence-parallel", !s->csv,
         "--sequence-parallel requires --csv, or --ranks with the model's options"},
        {"vocab-size", !s->csv, "--vocab-size requires --csv, or --ranks with the model's options"},
        {"tokens", !s->ranks, "--tokens requires --ranks"},
        {"where", !s->csv, "--where requires --csv"},
        {"range", !s->csv, "--range requires --csv"},
        {"out", !s->calibrate, "--out requires --calibrate"},
    };
    return options_check_rules(&o, rules, sizeof rules / sizeof *rules);
}

/* The set of parts to leave out. */
static trine_status read_without(const settings *s, unsigned *without) {
    *without = 0;
    for (size_t n = 0; n < s->without.count; n++) {
        int part = 0;
        while (part < COST_PARTS && strcmp(parts[part], s->without.texts[n]) != 0) part++;
        CHECK(part < COST_PARTS, TRINE_EINVAL, "--without %s: no such part (see --help)",
              s->without.texts[n]);
        *without |= 1u << part;
    }
    return TRINE_OK;
}

/* ---- A table --------------------------------------------------------------------------------- */

/* The stage that waits least for others: its parts add up to the step. */
static int busiest(const forecast *f) {
    int stage = 0;
    for (int p = 1; p < f->stages; p++)
        if (f->stage[p][FORECAST_WAITING] < f->stage[stage][FORECAST_WAITING]) stage = p;
    return stage;
}

/* The columns behind those of the table; `f` NULL: their fields are empty. */
static void print_forecast(const settings *s, const hardware *h, const forecast *f, FILE *out) {
    double least = 0, most = 0;
    bool checked = f && hardware_range(h, f->step, &least, &most);
    if (f) c_fprintf(out, "%.6g", f->step);
    if (s->range && checked) c_fprintf(out, ",%.6g,%.6g", least, most);
    if (s->range && !checked) fputs(",,", out);
    for (int k = 0; s->where && k < FORECAST_PARTS; k++) {
        fputc(',', out);
        if (f) c_fprintf(out, "%.6g", f->stage[busiest(f)][k]);
    }
}

static void print_columns(const settings *s) {
    fputs("predicted_seconds", stdout);
    if (s->range) fputs(",least_seconds,most_seconds", stdout);
    for (int k = 0; s->where && k < FORECAST_PARTS; k++)
        c_fprintf(stdout, ",%s", forecast_text((forecast_part)k));
}

/* The fields of a row, those that are empty as searched; of: NULL: as they are. */
static void print_fields(const csv *c, int row, const row_plan *of, const search_layout *l,
                         FILE *out) {
    char text[ROW_TEXT];
    for (int n = 0; n < c->columns; n++) {
        const char *filled = of ? row_fill(c, row, n, of, l, text) : NULL;
        csv_print(filled ? filled : csv_cell(c, row, n), out);
        fputc(',', out);
    }
}

/* Without a layout that fits, which a measured row has proved wrong, the fastest of all. */
static trine_status find_unfit(const settings *s, int line, const row_plan *of,
                               search_result *found) {
    search_space all = of->space;
    hardware endless = *of->space.rules.machine;
    c_fprintf(stderr,
              "trine: %s, line %d: none of %d valid layouts of %d ranks fits in %.1f GiB; the "
              "fastest without regard to memory is taken\n",
              s->csv, line, found->valid, of->space.ranks, search_room(&of->space) / (1 << 30));
    endless.memory_bytes = HUGE_VAL;
    all.base.parallel.memory = 0;
    all.rules.machine = &endless;
    return search_layouts(&all, found);
}

/* The fastest layout of those that the row leaves. */
static trine_status find_layout(const settings *s, int line, const row_plan *of, search_layout *l) {
    search_result found;
    *l = search_base(&of->space);
    if (of->space.fixed == SEARCH_ALL) return TRINE_OK;
    TRY(search_layouts(&of->space, &found));
    if (!found.count) TRY(find_unfit(s, line, of, &found));
    *l = found.best[0];
    return TRINE_OK;
}

static trine_status predict_layout(const row_plan *of, const search_layout *l, forecast *f) {
    trine_config config = search_config(&of->space, l);
    rehearsal r;
    trine_status status = rehearse(&r, &config, of->space.ranks, REHEARSE_PLAN);
    if (status == TRINE_OK) status = forecast_step(&r, &of->space.rules, f);
    rehearsal_end(&r);
    return status;
}

/* Rows as they are printed, and why those that have no time have none. */
typedef struct {
    char **text, **why; /* (rows) owned; why NULL: it has one, or measures no step */
    int rows, steps, refused;
} predictions;

static void predictions_end(predictions *p) {
    for (int n = 0; n < p->rows; n++) {
        if (p->text) free(p->text[n]);
        if (p->why) free(p->why[n]);
    }
    free(p->text);
    free(p->why);
}

/* Its fields, those that are empty filled in, and its time. */
static trine_status predict(const settings *s, const csv *c, int row, const forecast_rules *rules,
                            FILE *out) {
    const row_defaults d = {s->vocab, s->recompute, s->zero, s->sequence, s->given};
    row_plan of;
    search_layout l;
    forecast f;
    TRY(row_read(c, row, s->csv, &d, rules, &of));
    TRY(find_layout(s, c->lines[row + 1], &of, &l));
    TRY(predict_layout(&of, &l, &f));
    print_fields(c, row, &of, &l, out);
    print_forecast(s, rules->machine, &f, out);
    forecast_destroy(&f);
    return TRINE_OK;
}

/* The last error on one line, without the place of a row. Owned by the caller; NULL: no memory. */
static char *reason(const char *place) {
    const char *at = status_message(), *found = strstr(at, place);
    size_t used = 0;
    if (found) at = found + strlen(place);
    char *why = malloc(2 * strlen(at) + 1);
    for (; why && *at; at++) {
        if (*at != '\n') {
            why[used++] = *at;
            continue;
        }
        if (used && why[used - 1] != ':') why[used++] = ';';
        why[used++] = ' ';
        if (!strncmp(at + 1, "  - ", 4)) at += 4; /* of a list of faults */
    }
    if (why) why[used] = '\0';
    return why;
}

/* A row without a time is as it was, and the others go on. */
static trine_status refuse(const settings *s, const csv *c, int row, const hardware *h,
                           predictions *p, FILE *out) {
    char place[600];
    c_snprintf(place, sizeof place, "%.500s, line %d: ", s->csv, c->lines[row + 1]);
    p->why[row] = reason(place);
    status_clear();
    CHECK(p->why[row], TRINE_ENOMEM, "no memory for a row");
    fprintf(stderr, "trine: %s%s\n", place, p->why[row]);
    p->refused++;
    print_fields(c, row, NULL, NULL, out);
    print_forecast(s, h, NULL, out);
    return TRINE_OK;
}

static trine_status fill_row(const settings *s, const csv *c, int row, const forecast_rules *rules,
                             predictions *p, FILE *out) {
    bool step = row_is_step(c, row);
    p->steps += step;
    if (!step) {
        print_fields(c, row, NULL, NULL, out);
        print_forecast(s, rules->machine, NULL, out);
        return TRINE_OK;
    }
    trine_status status = predict(s, c, row, rules, out);
    bool own = status != TRINE_OK && status != TRINE_ENOMEM; /* the row's, not the machine's */
    return own ? refuse(s, c, row, rules->machine, p, out) : status;
}

static trine_status predict_rows(const settings *s, const csv *c, const forecast_rules *rules,
                                 predictions *p) {
    p->text = calloc((size_t)c->rows + 1, sizeof *p->text);
    p->why = calloc((size_t)c->rows + 1, sizeof *p->why);
    CHECK(p->text && p->why, TRINE_ENOMEM, "no memory for %d rows", c->rows);
    for (p->rows = 0; p->rows < c->rows;) {
        size_t size;
        int row = p->rows++;
        FILE *out = open_memstream(&p->text[row], &size);
        CHECK(out, TRINE_ENOMEM, "no memory for a row");
        trine_status status = fill_row(s, c, row, rules, p, out);
        bool whole = fclose(out) == 0;
        TRY(status);
        CHECK(whole, TRINE_ENOMEM, "no memory for a row");
    }
    return TRINE_OK;
}

/* With a last column of reasons where a row has one. */
static trine_status print_rows(const settings *s, const csv *c, const predictions *p) {
    print_fields(c, -1, NULL, NULL, stdout);
    print_columns(s);
    fputs(p->refused ? ",refused\n" : "\n", stdout);
    for (int row = 0; row < p->rows; row++) {
        fputs(p->text[row], stdout);
        if (p->refused) fputc(',', stdout);
        if (p->why[row]) csv_print(p->why[row], stdout);
        fputc('\n', stdout);
    }
    CHECK(!p->refused, TRINE_EDATA, "%s: %d of %d rows refused; the column \"refused\" says why",
          s->csv, p->refused, p->steps);
    return TRINE_OK;
}

static trine_status predict_table(const settings *s, const forecast_rules *rules) {
    csv table;
    predictions p = {0};
    if (s->range) plan_print_checked(rules->machine, s->hardware, stderr);
    trine_status status = csv_read(&table, s->csv);
    if (status == TRINE_OK) status = predict_rows(s, &table, rules, &p);
    if (status == TRINE_OK) status = print_rows(s, &table, &p);
    predictions_end(&p);
    csv_destroy(&table);
    return status;
}

/* ---- A search -------------------------------------------------------------------------------- */

/* Whether an argument is one of these options: "--name" or "--name=value". */
static bool is_option(const char *argument, const char *name) {
    size_t length = strlen(name);
    return !strncmp(argument, "--", 2) && !strncmp(argument + 2, name, length) &&
           (!argument[2 + length] || argument[2 + length] == '=');
}

static bool is_given(int argc, char **argv, const char *name) {
    for (int n = 1; n < argc; n++)
        if (is_option(argv[n], name)) return true;
    return false;
}

/* The number of arguments from argv[n] on that are this program's own in a search; 0: they are the trainer's. */
static int own_arguments(int argc, char **argv, int n) {
    static const char *const valued[] = {"hardware", "ranks",          "tokens", "calibrate",
                                         "out",      "implementation", "without"};
    for (size_t k = 0; k < sizeof valued / sizeof *valued; k++)
        if (is_option(argv[n], valued[k])) return strchr(argv[n], '=') || n + 1 == argc ? 1 : 2;
    bool flag = is_option(argv[n], "help") || is_option(argv[n], "version") ||
                is_option(argv[n], "where") || is_option(argv[n], "range") ||
                !strcmp(argv[n], "-h");
    return flag;
}

/* Moves the trainer's arguments behind this program's; argv[0] heads both. Returns the number of this program's. */
static int split_arguments(int argc, char **argv, char **trainer, int *trainer_count) {
    int own = 1;
    trainer[0] = argv[0];
    *trainer_count = 1;
    for (int n = 1; n < argc;) {
        int count = own_arguments(argc, argv, n);
        if (!count) trainer[(*trainer_count)++] = argv[n++];
        while (count-- > 0) argv[own++] = argv[n++];
    }
    return own;
}

/* What --model, or what is loaded, brings: the sizes that need not be given. */
static trine_status model_of(const trine_run *trainer, trine_model *model) {
    *model = trine_config_default().model;
    if (strcmp(trainer->model, "custom") != 0) return trine_model_preset(model, trainer->model);
    return trine_checkpoint_model(&trainer->checkpoint, model);
}

static trine_status print_found(const settings *s, const search_space *space,
                                const trine_run *trainer, const search_result *r) {
    usual_layout others[USUAL_MOST];
    trine_model model;
    int count;
    plan_print_best(space, r, stdout);
    if (!r->count) return plan_print_none(space, r);
    TRY(model_of(trainer, &model));
    plan_print_command(space, &r->best[0], trainer, &model, stdout);
    TRY(plan_print_needs(space, &r->best[0], stdout));
    TRY(usual_layouts(space, &r->best[0], others, &count));
    plan_print_usual(space, &r->best[0], others, count, stdout);
    if (s->tokens > 0) plan_print_duration(space, &r->best[0], s->tokens, stdout);
    return TRINE_OK;
}

/* Reads the trainer's options: what is planned, and which of a layout's are given. */
static trine_status read_space(const settings *s, int argc, char **argv, search_space *space,
                               trine_run *trainer) {
    const char **kind = &space->base.parallel.device;
    TRY(trine_parse(argc, argv, &space->base, trainer));
    bool looks = trainer->dry_run || trainer->explain || trainer->layouts ||
                 trainer->export_schedule != NULL;
    CHECK(!looks, TRINE_EINVAL,
          "--dry-run, --explain, --layouts and --export-schedule are train_gpt's alone");
    TRY(request_is_there(&trainer->checkpoint));
    TRY(plan_auto_vocabulary(&space->base));
    CHECK(space->base.global_batch_size, TRINE_EINVAL,
          "--global-batch-size is missing: layouts are compared by what they take for one batch");
    space->fixed = trainer->plan_keeps & SEARCH_ALL;
    if (trainer->plan_keeps & SEARCH_DEVICE)
        return hardware_check_device(space->rules.machine, s->hardware, "--device", *kind);
    *kind = space->rules.machine->device;
    return TRINE_OK;
}

static trine_status search_for(const settings *s, int argc, char **argv,
                               const forecast_rules *rules) {
    static trine_run trainer;
    search_space space = {.ranks = s->ranks, .rules = *rules};
    search_result result;
    TRY(read_space(s, argc, argv, &space, &trainer));
    space.base.parallel.threads = plan_launch_threads(&space);
    search_space planned = space;
    if (!planned.base.data.data_path) planned.base.data.data_path = "(none)";
    TRY(search_layouts(&planned, &result));
    plan_print_checked(rules->machine, s->hardware, stdout);
    return print_found(s, &space, &trainer, &result);
}

/* ---- A measured run --------------------------------------------------------------------------- */

/* Writes the scaled file. */
static trine_status write_scaled(const settings *s, double factor, const char *source) {
    whole_file *file;
    char *text;
    TRY(hardware_scaled_text(s->hardware, factor, source, &text));
    trine_status status = whole_file_begin(&file, "--out", s->out);
    if (status == TRINE_OK) {
        fputs(text, whole_file_stream(file));
        status = whole_file_publish(&file, NULL);
        whole_file_abandon(&file);
    }
    free(text);
    return status;
}

/* A table is alone on standard output. */
static trine_status scale_to_run(const settings *s, const calibrate_run *run, hardware *machine) {
    char source[512], place[512];
    double predicted, factor;
    c_snprintf(place, sizeof place, "%.400s: --device", s->calibrate);
    TRY(hardware_check_device(machine, s->hardware, place, run->started.config.parallel.device));
    TRY(calibrate_factor(run, machine, s->calibrate, &predicted, &factor));
    c_snprintf(
        source, sizeof source,
        "calibrated by %.300s: %d rank%s, %d steps with a median of %.6g s, predicted %.6g s: "
        "rates x %.6g",
        s->calibrate, run->ranks, run->ranks > 1 ? "s" : "", run->steps, run->seconds, predicted,
        factor);
    fprintf(s->csv ? stderr : stdout, "%s\n", source);
    hardware_scale(machine, factor);
    return s->out ? write_scaled(s, factor, source) : TRINE_OK;
}

static trine_status calibrate(const settings *s, hardware *machine) {
    calibrate_run run;
    trine_status status = calibrate_read(&run, s->calibrate);
    if (status == TRINE_OK) status = scale_to_run(s, &run, machine);
    calibrate_run_end(&run);
    return status;
}

/* Refuses --out where the trainer's options read that file. */
static trine_status check_out(const settings *s, int argc, char **argv) {
    static trine_run trainer;
    trine_config config;
    if (!s->ranks || !s->out) return TRINE_OK;
    TRY(trine_parse(argc, argv, &config, &trainer));
    const options o = config_options(&config, &trainer, &trainer.checkpoint);
    paths_apart *p = paths_apart_create();
    paths_apart_add(p, "--out", s->out, OPTION_PATH_OUTPUT);
    paths_apart_options(p, &o);
    return paths_apart_check(p);
}

static trine_status run(const settings *s, int argc, char **argv) {
    hardware machine;
    forecast_rules rules = {.machine = &machine, .by = implementation_of(s->implementation)};
    TRY(read_without(s, &rules.without));
    TRY(check_out(s, argc, argv));
    TRY(hardware_read(&machine, s->hardware));
    if (s->calibrate) TRY(calibrate(s, &machine));
    if (s->ranks) return search_for(s, argc, argv, &rules);
    return s->csv ? predict_table(s, &rules) : TRINE_OK;
}

int main(int argc, char **argv) {
    settings s = {0};
    char **trainer = calloc((size_t)argc + 1, sizeof *trainer);
    int count = 0, own = argc;
    output_limits_are_errors();
    if (trainer && is_given(argc, argv, "ranks") && !is_given(argc, argv, "csv"))
        own = split_arguments(argc, argv, trainer, &count);
    trine_status status = trainer ? parse(&s, own, argv) : RAISE(TRINE_ENOMEM, "no memory");
    if (status == TRINE_OK && !s.help) status = run(&s, count, trainer);
    if (status == TRINE_OK) status = output_flushed(stdout);
    (void)status_user(status);
    trine_error_print();
    free(trainer);
    return status == TRINE_OK ? 0 : 1;
}
