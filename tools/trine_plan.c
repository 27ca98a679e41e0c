/* trine-plan: how long a training step takes on a machine that need not be here, and which layout is the fastest.
 *
 *     trine-plan --hardware h100 --ranks 128 --model llama3.1-70b --vocab-size 128256 --global-batch-size 1024 --bf16
 *     trine-plan --hardware a100-selene --implementation megatron-2021 --csv published.csv
 *
 * The first searches all layouts. A row of the table of the second is a model with its layout; the same columns are
 * printed again, with `predicted_seconds` behind them. docs/planning.md says how it counts, and how well. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/options.h"
#include "base/output.h"
#include "base/status.h"
#include "plan/forecast.h"
#include "plan/csv_rows.h"
#include "plan/search.h"

#define WORD(id, text, ...) text,
static const char *const implementations[] = {IMPLEMENTATION_LIST(WORD)};
static const char *const parts[] = {COST_PART_LIST(WORD)};
static const char *const recomputes[] = {TRINE_RECOMPUTE_LIST(WORD)};
#undef WORD

#define SEARCH_RANKS (1 << 20)
#define GIB          (1024.0 * 1024 * 1024)

typedef struct {
    const char *hardware, *csv;
    implementation_kind implementation;
    trine_recompute recompute;
    option_list without;
    int vocab, ranks;
    double tokens;
    bool sequence, where, help;
} settings;

static const option rows[] = {
    {OPTION_HEADING("What is planned")},
    {OPTION_STRING("hardware", settings, hardware, "NAME", NULL,
                   "the machine: a100-selene, a100-vtrain, h100, or the path of a file")},
    {OPTION_INT("ranks", settings, ranks, "N", 0, SEARCH_RANKS, 0,
                "find the fastest layouts of so many ranks for a model and a batch, which are "
                "options of the trainer (train_gpt --help); those of a layout that are given are "
                "kept, the others are searched")},
    {OPTION_DOUBLE("tokens", settings, tokens, "T", 0, 1e18, 0,
                   "also print how long a training on so many tokens takes")},
    {OPTION_STRING("csv", settings, csv, "FILE", NULL,
                   "predict each row of a table: columns heads, hidden, layers, seq, tp, pp, dp, "
                   "batch and mbs, or vTrain's names for them; vocab, kv_heads, ffn, v, gpus, "
                   "schedule, recompute, sp and zero where it has them")},
    {OPTION_CHOICE("implementation", settings, implementation, implementations,
                   IMPLEMENTATION_TRINE, "what runs the step")},
    {OPTION_HEADING("Rows that do not say")},
    {OPTION_CHOICE("recompute", settings, recompute, recomputes, TRINE_RECOMPUTE_NONE,
                   "recomputation of rows without it")},
    {OPTION_INT("vocab-size", settings, vocab, "N", 1, INT_MAX, 50257,
                "vocabulary of rows without it")},
    {OPTION_FLAG("sequence-parallel", settings, sequence,
                 "sequence parallelism, where tp is more than 1, in rows without sp")},
    {OPTION_HEADING("What is printed")},
    {OPTION_FLAG("where", settings, where,
                 "also print the seconds of each part, of the stage that waits least")},
    {OPTION_LIST("without", settings, without, "PART",
                 "leave a part of the forecast out: memory-bound, tp, gradient-adds, bubble, dp, "
                 "tiles, messages, head, update, host; may be given several times")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

static trine_status parse(settings *s, int argc, char **argv) {
    const options o = {
        .program = "trine-plan",
        .about = "Predict how long training steps take on a machine, from their programs and a "
                 "file that describes the machine. Exit status 1: a row is refused.",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .at = {s}};
    TRY(options_read(&o, argc, argv));
    if (s->help) return TRINE_OK;
    CHECK(s->hardware, TRINE_EINVAL, "--hardware is missing (see --help)");
    CHECK(s->csv || s->ranks, TRINE_EINVAL, "--csv or --ranks is missing (see --help)");
    CHECK(!s->csv || !s->ranks, TRINE_EINVAL, "--csv and --ranks exclude each other");
    return TRINE_OK;
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

/* The stage that waits least for others. */
static int busiest(const forecast *f) {
    int stage = 0;
    for (int p = 1; p < f->stages; p++)
        if (f->stage[p][FORECAST_WAITING] < f->stage[stage][FORECAST_WAITING]) stage = p;
    return stage;
}

static void print_forecast(const settings *s, const forecast *f) {
    c_fprintf(stdout, "%.6g", f->step);
    for (int k = 0; s->where && k < FORECAST_PARTS; k++)
        c_fprintf(stdout, ",%.6g", f->stage[busiest(f)][k]);
}

/* Says which row an error is of. */
static trine_status of_row(trine_status status, const settings *s, const csv *c, int row) {
    char why[512];
    if (status == TRINE_OK) return TRINE_OK;
    c_snprintf(why, sizeof why, "%s", status_message());
    return RAISE(status, "%s, line %d: %s", s->csv, c->lines[row + 1], why);
}

static trine_status predict(const settings *s, const csv *c, int row, const forecast_rules *rules) {
    trine_config config;
    char split[ROW_SPLIT];
    int ranks;
    rehearsal r;
    forecast f;
    const row_defaults d = {s->vocab, s->recompute, s->sequence};
    TRY(row_config(c, row, s->csv, &d, rules->by, split, &config, &ranks));
    trine_status status = rehearse(&r, &config, ranks, REHEARSE_PLAN);
    if (status == TRINE_OK) status = forecast_step(&r, rules, &f);
    rehearsal_end(&r);
    TRY(of_row(status, s, c, row));
    print_forecast(s, &f);
    forecast_destroy(&f);
    return TRINE_OK;
}

static void print_fields(const csv *c, int row) {
    for (int n = 0; n < c->columns; n++) {
        csv_print(csv_cell(c, row, n), stdout);
        fputc(',', stdout);
    }
}

static trine_status predict_all(const settings *s, const csv *c, const forecast_rules *rules) {
    print_fields(c, -1);
    fputs("predicted_seconds", stdout);
    for (int k = 0; s->where && k < FORECAST_PARTS; k++)
        c_fprintf(stdout, ",%s", forecast_text((forecast_part)k));
    for (int row = 0; row < c->rows; row++) {
        fputc('\n', stdout);
        print_fields(c, row);
        if (row_is_step(c, row)) TRY(predict(s, c, row, rules));
        for (int k = 0; s->where && !row_is_step(c, row) && k < FORECAST_PARTS; k++)
            fputc(',', stdout);
    }
    fputc('\n', stdout);
    return TRINE_OK;
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
    static const char *const valued[] = {"hardware", "ranks", "tokens", "implementation",
                                         "without"};
    for (size_t k = 0; k < sizeof valued / sizeof *valued; k++)
        if (is_option(argv[n], valued[k])) return strchr(argv[n], '=') || n + 1 == argc ? 1 : 2;
    bool flag = is_option(argv[n], "help") || is_option(argv[n], "version") ||
                is_option(argv[n], "where") || !strcmp(argv[n], "-h");
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

static void print_layout(const search_space *s, const search_layout *l, int place) {
    const trine_model *m = &s->base.model;
    double tokens = (double)s->base.global_batch_size * m->seq_length,
           rate = m->seq_length && (s->base.precision.bf16 || s->base.precision.fp16)
                      ? s->rules.machine->matmul_rate
                      : s->rules.machine->matmul_rate_fp32,
           used = gpt_flops_per_token(m) * tokens / l->step / s->ranks / rate;
    c_fprintf(stdout, "%2d  %9.4f s  %10.0f tokens/s  MFU %4.1f%%  %6.2f GiB  ", place, l->step,
              tokens / l->step, 100 * used, (double)l->bytes / GIB);
    search_print_options(s, l, stdout);
    fputs("\n    ", stdout);
    for (int k = 0; k < FORECAST_PARTS; k++)
        c_fprintf(stdout, "%s%s %.1f%%", k ? ", " : "", forecast_text((forecast_part)k),
                  100 * l->where[k] / l->step);
    fputc('\n', stdout);
}

static void print_duration(const settings *s, const search_space *space, const search_layout *l) {
    double step = (double)space->base.global_batch_size * space->base.model.seq_length,
           steps = ceil(s->tokens / step), days = steps * l->step / 86400;
    c_fprintf(stdout, "%.4g tokens: %.0f steps, %.2f days, %.0f rank-hours\n", s->tokens, steps,
              days, days * 24 * space->ranks);
}

static void print_result(const settings *s, const search_space *space, const search_result *r) {
    c_fprintf(stdout,
              "%d valid layouts; %d have no room for their state; %d simulated, of which %d have "
              "no room; the others cannot be faster\n",
              r->valid, r->small, r->simulated, r->unfit);
    for (int n = 0; n < r->count; n++) print_layout(space, &r->best[n], n + 1);
    if (!r->count) c_fprintf(stdout, "no layout of %d ranks fits\n", space->ranks);
    if (r->count && s->tokens > 0) print_duration(s, space, &r->best[0]);
}

static trine_status search_for(const settings *s, int argc, char **argv,
                               const forecast_rules *rules) {
    static const char *const searched[] = {
#define OPTION_NAME(name, option) option,
        SEARCH_LIST(OPTION_NAME)
#undef OPTION_NAME
    };
    static trine_run trainer;
    search_space space = {.ranks = s->ranks, .rules = *rules};
    search_result result;
    TRY(trine_parse(argc, argv, &space.base, &trainer));
    CHECK(space.base.model.vocab_size, TRINE_EINVAL, "unknown vocabulary size; set --vocab-size");
    CHECK(space.base.global_batch_size, TRINE_EINVAL, "--global-batch-size is missing");
    if (!space.base.data.data_path) space.base.data.data_path = "(none)";
    if (!is_given(argc, argv, "device")) space.base.parallel.device = "cuda";
    for (int d = 0; d < SEARCH_DIMENSIONS; d++)
        if (is_given(argc, argv, searched[d])) space.fixed |= 1u << d;
    TRY(search_layouts(&space, &result));
    print_result(s, &space, &result);
    return TRINE_OK;
}

static trine_status run(const settings *s, int argc, char **argv) {
    hardware machine;
    csv table;
    forecast_rules rules = {.machine = &machine, .by = implementation_of(s->implementation)};
    TRY(read_without(s, &rules.without));
    TRY(hardware_read(&machine, s->hardware));
    if (s->ranks) return search_for(s, argc, argv, &rules);
    trine_status status = csv_read(&table, s->csv);
    if (status == TRINE_OK) status = predict_all(s, &table, &rules);
    csv_destroy(&table);
    return status;
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
